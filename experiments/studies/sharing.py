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
        "yes",
        "3.5 points of masked tokens with E = 64, 0.4 with E = 32 (paper: 2.5 and 1.5 of tasks)",
    ),
    notes="""
As in the paper, models that share nothing are clearly better than those that share everything, and
sharing costs more with wide embeddings (3.5 points, in the paper 2.5) than with narrow ones (0.4;
1.5). The pair of models that disagrees is 0.1 apart in the paper.

No model with E = 32 leaves the [plateau](results.md#the-plateau) in one pass. With E = 64, models
without sharing leave it at the same time with every seed, and those that share something at a
different step each, which makes their intervals wide. So this scale does not tell whether the
attention or the feed-forward network costs more to share.
""",
)
