"""Fine-tuning on texts and pairs of texts: GLUE, or tables of the user's own."""

from __future__ import annotations

from albert_tf.finetuning.finetuning_options import ClassifierOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: ClassifierOptions) -> None:
    with quiet_import():
        from albert_tf.finetuning.classification.classification import Classification
        from albert_tf.finetuning.run import fine_tune

    fine_tune(options, Classification)


main = command(ClassifierOptions, run)
