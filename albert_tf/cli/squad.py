"""Fine-tuning on questions whose answers are spans of a text (SQuAD 1.1 and 2.0)."""

from __future__ import annotations

from albert_tf.finetuning.squad.squad_options import SquadOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: SquadOptions) -> None:
    with quiet_import():
        from albert_tf.finetuning.squad.question_answering import answer_questions

    answer_questions(options)


main = command(SquadOptions, run)
