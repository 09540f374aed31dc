"""Table 4: which parameters the layers share."""

from experiments.study import (
    DOWNSTREAM,
    MASKED_LM,
    PARAMETERS,
    SENTENCE_ORDER,
    Dots,
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
    large, small = scale.at((64, 32), (768, 128), (768, 128))
    rows = [
        Variant(
            f"E = {size}, {NAMES[sharing]}",
            model={"embedding_size": size, "parameter_sharing": sharing},
            paper={"model": f"E = {e}", "parameters": parameters, "Avg": average},
        )
        for size, (e, table) in zip((large, small), PAPER.items(), strict=True)
        for sharing, (parameters, average) in table.items()
    ]
    # Section 4.5 mentions groups of layers, without numbers.
    layers = scale.config.num_hidden_layers
    groups = Variant(
        f"E = {small}, all in {layers // 2} groups",
        model={
            "embedding_size": small,
            "parameter_sharing": None,
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
    columns=(PARAMETERS, MASKED_LM, SENTENCE_ORDER, DOWNSTREAM),
    pictures=(Relation(PARAMETERS, MASKED_LM), Dots(SENTENCE_ORDER)),
)
