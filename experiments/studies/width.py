"""Table 12: how wide the layers are."""

from experiments.study import (
    GFLOPS,
    LEARNED,
    MASKED_LM,
    PARAMETERS,
    SPEED,
    Finding,
    Relation,
    Study,
    Variant,
)

# Of ALBERT-large with 3 layers.
PAPER = {1024: ("18M", 71.2), 2048: ("60M", 74.6), 4096: ("225M", 76.3), 6144: ("499M", 74.0)}


def variants(scale):
    widths = scale.at((64, 96, 128, 192), (256, 512, 768, 1024), tuple(PAPER))
    heads = scale.config.hidden_size // scale.config.num_attention_heads
    return [
        Variant(
            f"H = {width}",
            model={
                "hidden_size": width,
                "intermediate_size": 4 * width,
                "num_attention_heads": width // heads,
                "num_hidden_layers": 3,
                **scale.at({"initializer_range": width**-0.5}, {}, {}),
            },
            paper={"model": f"H = {theirs}", "parameters": parameters, "Avg": average},
        )
        for width, (theirs, (parameters, average)) in zip(widths, PAPER.items(), strict=True)
    ]


STUDY = Study(
    title="Width",
    source="table 12",
    question="Wider layers, in networks of three layers: what do they gain, and when does it end?",
    variants=variants,
    columns=(PARAMETERS, GFLOPS, SPEED, *LEARNED),
    pictures=(Relation(PARAMETERS, MASKED_LM), Relation(GFLOPS, MASKED_LM)),
    timed=True,
    finding=Finding(
        "Wider layers are better, up to H = 4096.",
        "yes, without an end",
        "masked tokens 24.5, 26.9, 27.6 and 28.4 % with H = 64, 96, 128 and 192",
    ),
    notes="""
Every step in width gains masked tokens: 2.4, 0.6 and 0.8 points, for 1.6, 1.5 and 1.9 times the
operations. In the paper, the widest model is worse again; here, the widest is the best. H = 64 is
behind in the task as well; sentence order differs by no more than the spread of the seeds.
""",
)
