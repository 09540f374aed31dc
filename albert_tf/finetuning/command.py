"""The command of a kind of task: flags in, one call.

    main = fine_tuning_command(KIND)

Without a command, call `albert_tf.finetuning.run.fine_tune(options, MyTask)`.
"""

import functools
from collections.abc import Callable

from albert_tf.engines.early_failures import tell_others
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.finetuning.early_checks import check_early
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.options import command
from albert_tf.task_kinds import TaskKind


def run_kind(kind: TaskKind, options: FineTuningOptions) -> None:
    """Fine-tune on a task of this kind; see `albert_tf.finetuning.run.fine_tune`."""
    select_engine(options.engine)
    check_early(options, kind.check_data)
    with quiet_import():
        load_keras()
        from albert_tf.finetuning.run import fine_tune_checked

        task = kind.load("task")
    fine_tune_checked(options, task)


def fine_tuning_command(kind: TaskKind) -> Callable[[], None]:
    """Return the console entry point of a kind of task."""
    options_class, run = kind.load("options"), functools.partial(run_kind, kind)
    return command(
        options_class, run, original=options_class.original, keeps_memory=True, failed=tell_others
    )
