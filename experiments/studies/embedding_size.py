"""Table 3: the width of the embeddings, with shared layers and without."""

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
    "none": {64: ("87M", 81.3), 128: ("89M", 81.7), 256: ("93M", 81.8), 768: ("108M", 82.3)},
    "all": {64: ("10M", 79.0), 128: ("12M", 80.1), 256: ("16M", 79.6), 768: ("31M", 79.8)},
}
SHARED = {"none": "not shared", "all": "all shared"}


def variants(scale):
    sizes = scale.at((8, 16, 32, 64), (64, 128, 256, 768), (64, 128, 256, 768))
    return [
        Variant(
            f"E = {size}, {SHARED[sharing]}",
            model={"embedding_size": size, "parameter_sharing": sharing},
            paper={"model": f"E = {e}", "parameters": parameters, "Avg": average},
        )
        for sharing, rows in PAPER.items()
        for size, (e, (parameters, average)) in zip(sizes, rows.items(), strict=True)
    ]


STUDY = Study(
    title="Embedding size",
    source="table 3",
    question=(
        "Embeddings of width E, followed by a projection to the width H of the layers, take "
        "V x E + E x H parameters instead of V x H. What does a small E cost?"
    ),
    variants=variants,
    columns=(PARAMETERS, *LEARNED),
    pictures=(Relation(PARAMETERS, MASKED_LM), Curves(), Dots(SENTENCE_ORDER)),
    finding=Finding(
        "With shared layers, nothing is gained beyond E = 128.",
        "not at H = 64",
        "masked tokens 13.1, 14.5, 15.4 and 16.8 % with E = 8, 16, 32 and 64",
    ),
    notes="""
Without sharing, wider embeddings are better, as in the paper. With sharing, they are here as well,
while in the paper nothing is gained beyond E = 128. A reason for the difference is the scale: E =
128 is a sixth of H there, and E = 8, 16 and 32 are an eighth, a quarter and a half of an H of only
64.

Models with E = 64 leave the [plateau](results.md#the-plateau) within one pass, those without
sharing with every seed. None of the others does, so the differences between them are those of what
is learned on it.
""",
)
