"""Tables 11 and 13: how many layers, all with the same parameters."""

from albert_tf.logs import counted
from experiments.study import (
    GFLOPS,
    LEARNED,
    MASKED_LM,
    PARAMETERS,
    SENTENCE_ORDER,
    SPEED,
    Finding,
    Relation,
    Study,
    Variant,
)

# Of ALBERT-large, longer networks started from shorter ones.
PAPER = {1: 52.9, 3: 71.2, 6: 77.2, 12: 81.5, 24: 82.1, 48: 81.8}


def variants(scale):
    depths = scale.at((1, 2, 3, 6), tuple(PAPER)[:5], tuple(PAPER))
    names = {layers: counted(layers, "layer") for layers in depths}
    return [
        Variant(
            name,
            model={"num_hidden_layers": layers},
            paper={"model": name, "parameters": "18M", "Avg": PAPER[layers]}
            if layers in PAPER
            else {},
        )
        for layers, name in names.items()
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
    columns=(PARAMETERS, GFLOPS, SPEED, *LEARNED),
    pictures=(Relation(GFLOPS, MASKED_LM), Relation(GFLOPS, SENTENCE_ORDER)),
    timed=True,
    finding=Finding(
        "More layers with the same parameters learn more.",
        "not in one pass",
        "masked tokens 16.4, 15.3, 15.4 and 14.5 % with 1, 2, 4 and 8 layers, within the spread",
    ),
    notes="""
In masked tokens, no two depths differ by more than the spread of the seeds: the gain that the paper
reports, with much longer training, does not show in one pass over 65 MB. A single layer leaves the
[plateau](results.md#the-plateau) with one seed of three (17.6 %), and no deeper model does.

In sentence order, one layer is 2.4 to 3.3 points behind more of them, and the others do not
differ. Eight layers take 7.8 times the operations of one and train at 0.29 of its speed.
""",
)
