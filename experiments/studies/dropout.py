"""Figure 2b and table 8: training without dropout."""

from experiments.study import LEARNED, MASKED_LM_LOSS, Curves, Finding, Study, Variant


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
    finding=Finding(
        "Models learn more without dropout.",
        "yes",
        "masked tokens 24.1 % with dropout of 0.1, 28.4 % without",
    ),
    notes="""
With dropout, models leave the [plateau](results.md#the-plateau) about 400 of the 2,000 steps later,
and end 4.3 points lower. As in the paper, there is no overfitting that it could prevent: the text
is seen 0.7 times. The task is 4.2 points better without it, but varies as much with the seeds.
""",
)
