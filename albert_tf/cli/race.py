"""Fine-tuning on RACE, or other multiple choice."""

from __future__ import annotations

from albert_tf.finetuning.finetuning_options import RaceOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: RaceOptions) -> None:
    with quiet_import():
        from albert_tf.finetuning.race.multiple_choice import MultipleChoice
        from albert_tf.finetuning.run import fine_tune

    fine_tune(options, MultipleChoice)


main = command(RaceOptions, run)
