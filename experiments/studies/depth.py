"""Tables 11 and 13: how many layers, all with the same parameters."""

from experiments.study import (
    DOWNSTREAM,
    GFLOPS,
    MASKED_LM,
    PARAMETERS,
    SENTENCE_ORDER,
    SPEED,
    Relation,
    Study,
    Variant,
)

# Of ALBERT-large, longer networks started from shorter ones.
PAPER = {1: 52.9, 3: 71.2, 6: 77.2, 12: 81.5, 24: 82.1, 48: 81.8}


def variants(scale):
    depths = scale.at((1, 2, 4, 8), tuple(PAPER)[:5], tuple(PAPER))
    return [
        Variant(
            f"{layers} layer{'s' * (layers > 1)}",
            model={"num_hidden_layers": layers},
            paper={"model": f"{layers} layers", "parameters": "18M", "Avg": PAPER[layers]}
            if layers in PAPER
            else {},
        )
        for layers in depths
    ]


STUDY = Study(
    title="Depth",
    source="tables 11 and 13",
    question=(
        "More layers with the same parameters cost time and no memory for weights. What do they "
        "gain? The paper starts deeper networks from shallower ones; here all start from random "
        "weights."
    ),
    variants=variants,
    columns=(PARAMETERS, GFLOPS, SPEED, MASKED_LM, SENTENCE_ORDER, DOWNSTREAM),
    pictures=(Relation(GFLOPS, MASKED_LM), Relation(GFLOPS, SENTENCE_ORDER)),
    timed=True,
)
