"""Figure 2b and table 8: training without dropout."""

from experiments.study import LEARNED, MASKED_LM_LOSS, Curves, Study, Variant


def _with_dropout(rate):
    return {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}


def variants(scale):
    return [
        Variant(
            "dropout 0.1",
            model=_with_dropout(0.1),
            paper={"model": "With dropout", "Avg": 90.4},
        ),
        Variant(
            "no dropout",
            model=_with_dropout(0.0),
            paper={"model": "Without dropout", "Avg": 90.7},
        ),
    ]


STUDY = Study(
    title="Dropout",
    source="figure 2b and table 8",
    question="ALBERT's layers share their parameters. Do they still need dropout?",
    variants=variants,
    columns=(*LEARNED, MASKED_LM_LOSS),
    pictures=(Curves(),),
)
