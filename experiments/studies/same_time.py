"""Table 6: ALBERT and BERT, trained for the same time."""

from experiments.study import (
    LEARNED,
    PARAMETERS,
    SENTENCE_ORDER,
    STEPS,
    Curves,
    Dots,
    Finding,
    Study,
    Variant,
)


def variants(scale):
    # In the paper, ALBERT is four times as wide as BERT, and half as deep.
    layers = scale.config.num_hidden_layers
    bert = scale.at(
        {
            "hidden_size": 64,
            "num_attention_heads": 2,
            "num_hidden_layers": 2 * layers,
            "initializer_range": 64**-0.5,
        },
        {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2 * layers},
        {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24},
    )
    albert = scale.at(
        {"hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": layers},
        {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": layers},
        {"hidden_size": 4096, "num_attention_heads": 64, "num_hidden_layers": 12},
    )
    return [
        Variant(
            "BERT",
            model={
                **bert,
                "intermediate_size": 4 * bert["hidden_size"],
                "embedding_size": bert["hidden_size"],
                "parameter_sharing": "none",
            },
            paper={"model": "BERT-large", "steps": "400k", "time": "34h", "Avg": 87.2},
        ),
        Variant(
            "ALBERT",
            model={**albert, "intermediate_size": 4 * albert["hidden_size"]},
            paper={"model": "ALBERT-xxlarge", "steps": "125k", "time": "32h", "Avg": 88.7},
        ),
    ]


STUDY = Study(
    title="Equal training time",
    source="table 6",
    question=(
        "A wide ALBERT has fewer parameters than BERT, and takes longer for a step. Which of them "
        "is better after the same time?"
    ),
    variants=variants,
    columns=(PARAMETERS, STEPS, *LEARNED),
    pictures=(Curves(), Dots(SENTENCE_ORDER)),
    same_time=True,
    finding=Finding(
        "A wide ALBERT beats BERT in the same training time.",
        "for masked tokens",
        "after three minutes: masked tokens 28.6 % (BERT 27.2), order 60.7 % (BERT 61.7)",
    ),
    notes="""
With as many parameters, twice the width and half the depth, ALBERT does 10 % fewer steps and
predicts 1.4 points more of the masked tokens. BERT is 1.0 points better at the order; in the task,
the difference is within the spread of the seeds. In the paper, ALBERT does a third of the steps and
is better by 1.5 points of tasks.
""",
)
