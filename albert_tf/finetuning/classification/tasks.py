"""Tasks of sequence classification: where their rows are, and what is to be said of them.

GLUE's tasks are the table in `classification.glue`; `classification.tables` makes a task of the
user's own files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.finetuning.classification.readers import Row, read_rows


class Columns(NamedTuple):
    """Names of columns; None for what a table does not have.

    Attributes:
        text: the text, or the first of a pair.
        pair: the second text.
        label: the label.
        id: what tells rows apart in predictions; without it their numbers do, from 0.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows of one file.

    Attributes:
        path: of the file.
        columns: which of the columns are read.
        header: names of all columns where the first line is a row already; () to number them, from
            "1". None: the first line names them.
        label: the label of all rows, where the file stands for one.
        empty_texts: whether a text may be empty.
        read: gives the rows, from path and header.
    """

    path: str
    columns: Columns
    header: tuple[str, ...] | None = None
    label: str | None = None
    empty_texts: bool = False
    read: Callable[[str, tuple[str, ...] | None], Iterator[Row]] = read_rows


@dataclasses.dataclass(frozen=True)
class RowSet:
    """Rows that are scored, or predicted, together, such as MNLI's mismatched ones.

    Attributes:
        sources: files whose rows it holds, one after the other.
        name: what tells it from other sets of its split.
        suffix: what its results and files of predictions end in; "" for the main set.
        submission: the file that GLUE's server takes; None where it takes none.
    """

    sources: tuple[Source, ...]
    name: str = ""
    suffix: str = ""
    submission: str | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of sequence classification.

    Attributes:
        name: as `--task_name` writes it.
        sets: split ("train", "eval", "predict") -> its sets; of "train" one.
        pairs: whether an example is a pair of texts.
        metrics: names in `albert_tf.finetuning.metrics.METRICS`; the first is the task's own.
        target: what is predicted: a name in `albert_tf.finetuning.classification.targets.TARGETS`.
        labels: the labels in order; None to take them from the training rows.
        unlabelled: what stands for a label where people could not agree on one; such rows are left
            out.
        label_separator: what stands between the labels of a row that has several.
        missing: split -> the error where it is asked for and has no set.
        held_out: part of the training rows that is evaluated on and not trained on; 0: none.
        held_out_seed: chooses which.
    """

    name: str
    sets: dict[str, tuple[RowSet, ...]]
    pairs: bool = False
    metrics: tuple[str, ...] = ("accuracy",)
    target: str = "classification"
    labels: tuple[str, ...] | None = None
    unlabelled: str | None = None
    label_separator: str = ","
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    held_out: float = 0.0
    held_out_seed: int = 0


class Example(NamedTuple):
    """One text, or pair of texts.

    Attributes:
        location: "file:line", named in errors.
        text: the first text.
        text_pair: the second; None for tasks on single texts.
        label: as it stands in the table, a list where the table holds one; None if unknown.
        id: of the row, in predictions.
    """

    location: str
    text: str
    text_pair: str | None
    label: str | list[str] | None
    id: str = ""


def read_examples(task: Task, rows_of: RowSet, labelled: bool) -> list[Example]:
    """The examples of a set.

    Args:
        task: whose set it is.
        rows_of: the set.
        labelled: whether every row must have a label.

    Raises:
        InputError: a file or a column is missing, a field is empty, or there is no row.
    """
    examples: list[Example] = []
    unlabelled = 0
    for source in rows_of.sources:
        before = len(examples) + unlabelled
        for location, values, _ in source.read(source.path, source.header):
            example = _example(task, source, location, values, labelled, len(examples))
            if labelled and task.unlabelled is not None and example.label == task.unlabelled:
                unlabelled += 1
            else:
                examples.append(example)
        if len(examples) + unlabelled == before:
            raise InputError(f"{source.path}: no row after the header")
    if unlabelled:
        print(f"{rows_of.sources[0].path}: {unlabelled} rows without an agreed label left out")
    if not examples:
        raise InputError(f"{rows_of.sources[0].path}: no row has a label")
    return examples


def _example(
    task: Task, source: Source, location: str, values: dict, labelled: bool, number: int
) -> Example:
    columns = source.columns

    def text_of(column: str) -> str:
        text = _value(values, column, location)
        if not isinstance(text, str):
            raise InputError(f"{location}: column {column!r} holds a list, not a text")
        if not text.strip() and not source.empty_texts:
            raise InputError(f"{location}: nothing in column {column!r}")
        return text

    label = source.label
    if labelled and label is None:
        label = _value(values, columns.label, location)
        several = task.target == "multi_label"
        if isinstance(label, list) and not several:
            raise InputError(
                f"{location}: column {columns.label!r} holds a list; for several labels of a row "
                "there is --multi_label"
            )
        if not several and not label.strip():
            raise InputError(f"{location}: nothing in column {columns.label!r}")
    return Example(
        location,
        text_of(columns.text),
        text_of(columns.pair) if columns.pair else None,
        label,
        # Only some of GLUE's tables with labels have an id, and nothing asks for it there.
        str(
            number
            if _has_no_id(columns, values, labelled)
            else _value(values, columns.id, location)
        ),
    )


def _has_no_id(columns: Columns, values: dict, labelled: bool) -> bool:
    return columns.id is None or (labelled and columns.id not in values)


def _value(values: dict, column: str | None, location: str):
    if column not in values:
        raise InputError(
            f"{location}: no column {column!r}; there are {', '.join(map(repr, values))}"
        )
    return values[column]
