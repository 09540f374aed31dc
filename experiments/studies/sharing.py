"""Table 4: which parameters the layers share."""

from experiments.study import (
    LEARNED,
    MASKED_LM,
    PARAMETERS,
    SENTENCE_ORDER,
    Curves,
    Dots,
    Finding,
    Relation,
    Study,
    Variant,
)

PAPER = {
    768: {
        "all": ("31M", 79.8),
        "attention": ("83M", 81.6),
        "ffn": ("57M", 79.5),
        "none": ("108M", 82.3),
    },
    128: {
        "all": ("12M", 80.1),
        "attention": ("64M", 81.7),
        "ffn": ("38M", 80.2),
        "none": ("89M", 81.6),
    },
}
NAMES = {"all": "all", "attention": "attention", "ffn": "feed-forward", "none": "nothing"}


def variants(scale):
    large, small = scale.at((128, 64), (768, 128), (768, 128))
    layers = scale.at(4, 12, 12)
    rows = [
        Variant(
            f"E = {size}, {NAMES[sharing]}",
            model={
                "embedding_size": size,
                "parameter_sharing": sharing,
                "num_hidden_layers": layers,
            },
            paper={"model": f"E = {e}", "parameters": parameters, "Avg": average},
        )
        for size, (e, table) in zip((large, small), PAPER.items(), strict=True)
        for sharing, (parameters, average) in table.items()
    ]
    # Section 4.5 mentions groups of layers, without numbers.
    groups = Variant(
        f"E = {small}, all in {layers // 2} groups",
        model={
            "embedding_size": small,
            "parameter_sharing": None,
            "num_hidden_layers": layers,
            "num_hidden_groups": layers // 2,
        },
    )
    return [*rows, groups]


STUDY = Study(
    title="Parameter sharing",
    source="table 4",
    question=(
        "All layers can share their attention, their feed-forward network, both or nothing. What "
        "does each cost? In groups, neighboring layers share."
    ),
    variants=variants,
    columns=(PARAMETERS, *LEARNED),
    pictures=(Relation(PARAMETERS, MASKED_LM), Curves(), Dots(SENTENCE_ORDER)),
    finding=Finding(
        "Sharing costs little, and more with wide embeddings.",
        "the first half",
        "0.8 points of masked tokens with E = 128, 0.5 with E = 64 (paper: 2.5 and 1.5 of tasks)",
    ),
    notes="""
As in the paper, sharing everything costs little. With E = 128 the 0.8 points are clear; with E = 64
the 0.5 are within the spread of the seeds, so it is not shown that wide embeddings suffer more.
With 1.3 million parameters, E = 128 and everything shared has 27.8 %, E = 64 and nothing shared
27.3 %.

Models whose layers share only their attention are as good as those that share nothing, as in the
paper with its narrow embeddings. Sharing the feed-forward network seems to be what costs, as in the
paper, but that is within the spread.
Pairs that contradict the paper differ in E, for which the paper finds the smaller one better.

Networks have four layers here instead of two, so that there is something to share.
""",
)
