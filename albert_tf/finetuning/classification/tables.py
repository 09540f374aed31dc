"""The user's own tables as a task."""

from __future__ import annotations

import os

import numpy as np
from sklearn.model_selection import train_test_split

from albert_tf.errors import InputError
from albert_tf.finetuning.classification.tasks import Columns, Example, RowSet, Source, Task
from albert_tf.finetuning.finetuning_options import ClassifierOptions

_METRICS = {
    "classification": ("accuracy", "macro_f1"),
    "regression": ("pearson", "spearman", "mse"),
    "multi_label": ("micro_f1", "macro_f1", "exact_match"),
}


def table_task(options: ClassifierOptions) -> Task:
    """`--task_name=table`.

    Raises:
        InputError: flags that do not go together.
    """
    target = _target(options)
    header = None if options.header else ()
    columns = Columns(
        _column(options, "text_column"),
        _column(options, "text_pair_column"),
        _column(options, "label_column"),
        _column(options, "id_column"),
    )
    sets: dict[str, tuple[RowSet, ...]] = {}
    for split, path in (
        ("train", options.train_file),
        ("eval", options.eval_file),
        ("predict", None if options.streams else options.predict_file),
    ):
        sets[split] = (RowSet((Source(path, columns, header),)),) if path else ()
    if options.class_files:
        sets["train"] = (RowSet(_class_files(options)),)
    if options.test_size:
        _check_test_size(options)
    return Task(
        name="table",
        sets=sets,
        pairs=columns.pair is not None,
        metrics=_METRICS[target],
        target=target,
        label_separator=options.label_separator,
        missing={
            "train": "--train_file: a file is needed to train, or --class_files",
            "eval": "--eval_file: a file is needed to evaluate, or --test_size, which holds out "
            "a part of the training rows",
            "predict": "--predict_file: a file is needed to predict",
        },
        held_out=options.test_size,
        held_out_seed=options.test_seed,
    )


def _target(options: ClassifierOptions) -> str:
    if options.regression and options.multi_label:
        raise InputError("--regression and --multi_label exclude each other")
    if options.multi_label and not options.label_separator:
        raise InputError("--label_separator: must not be empty")
    if options.regression:
        return "regression"
    return "multi_label" if options.multi_label else "classification"


# What the columns are called where the file has no names for them.
_BY_NUMBER = {"text_column": "1", "text_pair_column": None, "label_column": "2", "id_column": None}
_BY_NAME = {"text_column": "text", "label_column": "label"}


def _column(options: ClassifierOptions, flag: str) -> str | None:
    name = getattr(options, flag)
    if options.header:
        return name or _BY_NAME.get(flag)
    if name and not name.isdecimal():
        raise InputError(
            f"--{flag}={name}: with --noheader columns have numbers, from 1, instead of names"
        )
    return name or _BY_NUMBER[flag]


def _class_files(options: ClassifierOptions) -> tuple[Source, ...]:
    """A file for each label, which is its name; the texts stand in the first column."""
    if options.train_file or options.regression or options.multi_label or options.text_pair_column:
        raise InputError(
            "--class_files: a file for each label excludes --train_file, --regression, "
            "--multi_label and --text_pair_column"
        )
    sources = {}
    for path in options.class_files:
        label = os.path.splitext(os.path.basename(path))[0]
        if label in sources:
            raise InputError(
                f"--class_files: {sources[label].path} and {path} both stand for the label "
                f"{label!r}; the label is the name of the file"
            )
        sources[label] = Source(path, Columns("1"), header=(), label=label)
    if len(sources) < 2:
        raise InputError(
            f"--class_files={','.join(options.class_files)}: two files at least, one for each "
            "label, with a comma between them"
        )
    return tuple(sources.values())


def _check_test_size(options: ClassifierOptions) -> None:
    if not 0 < options.test_size < 1:
        raise InputError(f"--test_size={options.test_size}: must be above 0 and below 1")
    if options.eval_file:
        raise InputError("--test_size and --eval_file exclude each other")


def hold_out(task: Task, examples: list[Example]) -> tuple[list[Example], list[Example]]:
    """The training rows without the part that is held out, and that part, both in their order.

    Every label keeps its share, as near as whole rows allow.

    Raises:
        InputError: too few rows, or a label has only one.
    """
    labels = [str(example.label) for example in examples]
    stratify = labels if task.target == "classification" else None
    groups = 1
    if stratify:
        names, counts = np.unique(labels, return_counts=True)
        groups, rarest = len(names), str(names[counts.argmin()])
        if counts.min() < 2:
            raise InputError(
                f"--test_size={task.held_out}: label {rarest!r} has only one row, "
                "which cannot be both trained and evaluated on"
            )
    count = int(np.ceil(task.held_out * len(examples)))
    if count < groups or len(examples) - count < groups:
        raise InputError(
            f"--test_size={task.held_out}: would hold out {count} of {len(examples)} rows; "
            f"{groups} at least must be held out and trained on each, one for each label"
        )
    train, held_out = train_test_split(
        np.arange(len(examples)),
        test_size=count,
        random_state=task.held_out_seed,
        stratify=stratify,
    )
    return [examples[row] for row in sorted(train)], [examples[row] for row in sorted(held_out)]
