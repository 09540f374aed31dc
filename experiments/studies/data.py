"""Figure 2a and table 7: more text, with the same number of steps."""

from experiments.study import LEARNED, MASKED_LM_LOSS, Curves, Study, Variant


def variants(scale):
    # The paper adds the corpora of XLNet and RoBERTa to 16 GB of Wikipedia and books.
    return [
        Variant(
            "an eighth of the text",
            text_share=0.125,
            paper={"model": "No additional data", "Avg": 80.1},
        ),
        Variant("all of the text", paper={"model": "With additional data", "Avg": 80.8}),
    ]


STUDY = Study(
    title="More data",
    source="figure 2a and table 7",
    question="The same number of steps on more text: what does it gain?",
    variants=variants,
    columns=(*LEARNED, MASKED_LM_LOSS),
    pictures=(Curves(),),
)
