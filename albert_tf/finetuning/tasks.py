"""The tasks of sequence classification: one table, a row a task."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.finetuning.options import ClassifierOptions
from albert_tf.finetuning.readers import read_rows


@dataclasses.dataclass(frozen=True)
class Task:
    """Where a task's rows are and how its predictions are scored.

    Attributes:
        files: split ("train", "eval", "predict") -> path; a split that is None is not there.
        text_column, text_pair_column, label_column: names of columns; no pair column for tasks on
            single texts.
        metrics: names in `albert_tf.finetuning.metrics.METRICS`; the first is the task's own.
        labels: the labels in order; None to take them from the training rows, sorted.
    """

    files: dict[str, str | None]
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)
    labels: tuple[str, ...] | None = None


class Example(NamedTuple):
    """One text, or pair of texts, and its label; `location` is named in errors."""

    location: str
    text: str
    text_pair: str | None
    label: str | None


def _table(options: ClassifierOptions) -> Task:
    """The user's own files."""
    return Task(
        files={
            "train": options.train_file,
            "eval": options.eval_file,
            "predict": options.predict_file,
        },
        text_column=options.text_column,
        text_pair_column=options.text_pair_column,
        label_column=options.label_column,
        metrics=("accuracy", "macro_f1"),
    )


TASKS = {"table": _table}


def create_task(options: ClassifierOptions) -> Task:
    """The task called `--task_name`.

    Raises:
        InputError: there is none of that name.
    """
    if options.task_name not in TASKS:
        raise InputError(f"--task_name={options.task_name}: must be one of {', '.join(TASKS)}")
    return TASKS[options.task_name](options)


def read_examples(task: Task, split: str) -> list[Example]:
    """The examples of a split.

    Raises:
        InputError: the file or a column is missing, a field is empty, or there is no row.
    """
    path = task.files[split]
    if path is None:
        raise InputError(f"--{split}_file: a file is needed to {split}")
    columns = [task.text_column]
    if task.text_pair_column:
        columns.append(task.text_pair_column)
    if split != "predict":
        columns.append(task.label_column)
    examples = []
    for location, values in read_rows(path):
        for column in columns:
            if column not in values:
                raise InputError(
                    f"{path}: no column {column!r}; there are {', '.join(map(repr, values))}"
                )
            if not values[column].strip():
                raise InputError(f"{location}: nothing in column {column!r}")
        pair = values[task.text_pair_column] if task.text_pair_column else None
        examples.append(
            Example(location, values[task.text_column], pair, values.get(task.label_column))
        )
    if not examples:
        raise InputError(f"{path}: no row after the header")
    return examples


def labels_of(task: Task, train_examples: list[Example]) -> tuple[str, ...]:
    """The labels in the order of their ids.

    Raises:
        InputError: the training rows have fewer than two.
    """
    labels = task.labels or tuple(sorted({example.label for example in train_examples}))
    if len(labels) < 2:
        raise InputError(
            f"{task.files['train']}: every row has the label {labels[0]!r}; two at least are needed"
        )
    return labels


def label_ids(examples: list[Example], labels: tuple[str, ...]) -> list[int]:
    """Id of each example's label.

    Raises:
        InputError: a label is none of `labels`; the message names file and line.
    """
    ids = {label: number for number, label in enumerate(labels)}
    for example in examples:
        if example.label not in ids:
            shown = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise InputError(
                f"{example.location}: label {example.label!r} is none of the training labels "
                f"({shown})"
            )
    return [ids[example.label] for example in examples]
