"""Table 2: parameters and speed of BERT and ALBERT, from base to xxlarge."""

import dataclasses

from albert_tf.config import AlbertConfig
from experiments.study import GFLOPS, PARAMETERS, SPEED, Column, Finding, Relation, Study, Variant

RELATIVE = Column("speed, as a multiple", "relative_speed")
TPU = Column("examples/s on a TPU slice, estimated", "tpu_examples_per_second")
# Speed as a multiple of that of BERT-large, measured on 64 to 512 chips.
PAPER = {
    "bert_base": ("BERT base", "108M", 4.7),
    "bert_large": ("BERT large", "334M", 1.0),
    "base": ("ALBERT base", "12M", 5.6),
    "large": ("ALBERT large", "18M", 1.7),
    "xlarge": ("ALBERT xlarge", "60M", 0.6),
    "xxlarge": ("ALBERT xxlarge", "235M", 0.3),
}


def variants(scale):
    return [
        Variant(
            name,
            model=dataclasses.asdict(AlbertConfig.preset(size)),
            paper={"model": name, "parameters": parameters, "speed": speed},
        )
        for size, (name, parameters, speed) in PAPER.items()
    ]


STUDY = Study(
    title="Parameters and speed",
    source="table 2",
    question=(
        "Training steps of the same batch, each model in rounds with BERT large. The paper's speed "
        "is a multiple of BERT-large's as well, on many TPUs, which also exchange gradients."
    ),
    variants=variants,
    columns=(PARAMETERS, GFLOPS, SPEED, RELATIVE, TPU),
    pictures=(Relation(PARAMETERS, RELATIVE),),
    reference="BERT large",
    compared=RELATIVE,
    paper_compared="speed",
    trains=False,
    timed=True,
    timed_batch={"tiny": (4, 128)},
    finding=Finding(
        "ALBERT large is faster than BERT large, xlarge and xxlarge slower.",
        "yes",
        "1.23, 0.34 and 0.17 times as fast (paper: 1.7, 0.6 and 0.3)",
    ),
    notes="""
The order is that of the paper. By operations alone, ALBERT xxlarge would be 0.13 times as fast as
BERT large; here it is 0.17 times as fast. The estimates of the TPU compiler, for 1,024 cores of v3
and a batch of 4,096, are closer to the paper. As multiples of BERT large, they are 3.0 for BERT
base, and 4.6, 1.5, 0.6 and 0.3 for ALBERT base to xxlarge.
""",
)
