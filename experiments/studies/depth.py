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
        "sentence order only",
        "order 59.5 to 61.7 % with 1 to 6 layers; masked tokens 28.0, 28.4, 27.5 and 25.8 %",
    ),
    notes="""
In sentence order, more layers are better: 2.2 points from one to six. In masked tokens, one to
three layers differ by no more than the spread of the seeds, and six are 2.2 points behind, since
deeper models leave the [plateau](results.md#the-plateau) later, by up to 400 of the 2,000 steps.
The paper trains much longer and starts deeper networks from shallower ones.

Six layers take 5.4 times the operations of one and train at 0.22 of its speed.
""",
)
