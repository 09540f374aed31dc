"""Fine-tuning: the kinds of tasks, and a command for each.

A kind of task that is defined elsewhere gets its command in the same way:

    main = fine_tuning_command(TaskKind(WicOptions, "my_package.wic:Wic"))

`WicOptions` is a dataclass derived from `FineTuningOptions`, and `Wic` is derived from
`albert_tf.finetuning.task.FineTuningTask`. Without a command, call
`albert_tf.finetuning.run.fine_tune(options, Wic)`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from albert_tf import original_flags
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.errors import InputError
from albert_tf.finetuning.early_checks import check_early
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.options import command
from albert_tf.original_flags import OriginalFlag
from albert_tf.quiet import quiet_import
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.tagging.options import TaggingOptions


class TaskKind(NamedTuple):
    """A kind of fine-tuning.

    Attributes:
        options: dataclass of its flags.
        task: "module:class" of its `FineTuningTask`, which is imported once there is work to do.
        original: other flags of the original's program; see `albert_tf.options.command`.
    """

    options: type[FineTuningOptions]
    task: str
    original: Mapping[str, OriginalFlag] = {}


TASK_KINDS = {
    "classification": TaskKind(
        ClassificationOptions,
        "albert_tf.tasks.classification.task:ClassificationTask",
        original_flags.CLASSIFIER,
    ),
    "multiple_choice": TaskKind(
        MultipleChoiceOptions, "albert_tf.tasks.multiple_choice.task:MultipleChoiceTask"
    ),
    "question_answering": TaskKind(
        QuestionAnsweringOptions,
        "albert_tf.tasks.question_answering.task:QuestionAnsweringTask",
        original_flags.SQUAD,
    ),
    "token_classification": TaskKind(
        TaggingOptions,
        "albert_tf.tasks.tagging.task:TaggingTask",
    ),
}


def run_kind(kind: TaskKind, options: FineTuningOptions) -> None:
    """Fine-tunes on a task of this kind; see `albert_tf.finetuning.run.fine_tune`."""
    select_engine(options.engine)
    check_early(options)
    module, name = kind.task.split(":")
    with quiet_import():
        load_keras()
        from albert_tf.finetuning.run import fine_tune_checked

        task = getattr(importlib.import_module(module), name)
    fine_tune_checked(options, task)


def fine_tuning_command(kind: TaskKind) -> Callable[[], None]:
    """The console entry point of a kind of task."""
    return command(
        kind.options,
        lambda options: run_kind(kind, options),
        original=kind.original,
        keeps_memory=True,
    )


def run_classifier(options: ClassificationOptions) -> None:
    """Fine-tunes on one data set, or on every task of GLUE."""
    if (options.task_name or "").lower() != "all":
        run_kind(TASK_KINDS["classification"], options)
        return
    if options.ensemble:
        raise InputError("`task_name`=all: make the `ensemble` of one task at a time")
    from albert_tf.tasks.classification.glue.run_all import run_all

    run_all(options, sys.argv[1:])


classify = command(
    ClassificationOptions, run_classifier, original=original_flags.CLASSIFIER, keeps_memory=True
)
race = fine_tuning_command(TASK_KINDS["multiple_choice"])
squad = fine_tuning_command(TASK_KINDS["question_answering"])
tag = fine_tuning_command(TASK_KINDS["token_classification"])
