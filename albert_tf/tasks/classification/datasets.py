"""Data sets of text classification: where their rows are, and what the labels mean.

The data sets of GLUE and CLUE are the tables in `classification.glue` and `classification.clue`;
`classification.tables` describes the user's own files.
"""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple


class Columns(NamedTuple):
    """Names of columns; None for what a table does not have.

    Attributes:
        text: the text, or the first of a pair.
        pair: the second text.
        label: the label.
        id: identifies rows in predictions; by default their numbers do, from 0.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    id: str | None = None


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        location: "file:line", for errors.
        values: column name -> value: a text, or a list of texts (JSON and Parquet).
        problem: what is wrong, if the number of fields differs from the number of columns.
    """

    location: str
    values: dict[str, Any]
    problem: str = ""


# Path of a file, and the names of its columns (see `readers.read_rows`) -> its rows.
RowReader = Callable[[str, tuple[str, ...] | None], Iterator[Row]]


@dataclasses.dataclass(frozen=True)
class TableFile:
    """Rows of one file.

    Attributes:
        path: of the file.
        columns: the columns to read.
        header: names of all columns if the first line is already a row; () to number them, from
            "1". None: the first line names them.
        label: the label of all rows, if the file stands for one.
        empty_texts: whether a text may be empty.
        read: returns the rows; None to choose by the ending of the file name.
    """

    path: str
    columns: Columns
    header: tuple[str, ...] | None = None
    label: str | None = None
    empty_texts: bool = False
    read: RowReader | None = None


@dataclasses.dataclass(frozen=True)
class RowSet:
    """Rows that are scored, or predicted, together, such as the mismatched ones of MNLI.

    Attributes:
        files: their rows, one file after the other.
        name: distinguishes the sets of a split.
        suffix: appended to the names of results and prediction files; "" for the main set.
        submission: file name that the benchmark's server expects; None if it expects none.
    """

    files: tuple[TableFile, ...]
    name: str = ""
    suffix: str = ""
    submission: str | None = None

    @property
    def file_names(self) -> str:
        """The names of the files, without their folders."""
        return ", ".join(os.path.basename(file.path) for file in self.files)


@dataclasses.dataclass(frozen=True)
class ClassificationDataset:
    """A data set of text classification.

    Attributes:
        name: as `task_name` writes it.
        sets: split ("train", "eval", "predict") -> its sets; exactly one for "train".
        pairs: whether an example is a pair of texts.
        metrics: names in `albert_tf.finetuning.metrics.METRICS`; the first is the main one.
        target: what is predicted: a name in `albert_tf.tasks.classification.targets.TARGETS`.
        labels: the labels in order; None to collect them from the training rows.
        unlabeled: stands for a label on which annotators did not agree; such rows are skipped.
        label_separator: separates the labels of a row that has several.
        missing: split -> the error if it is needed and has no set.
        held_out: share of the training rows used for evaluation instead; 0: none.
        held_out_seed: chooses these rows.
        submitted: ids and labels of predicted rows -> content of the file for the benchmark's
            server; None if there is no benchmark.
        record: options that the trained folder records, so that other rows are read alike.
    """

    name: str
    sets: dict[str, tuple[RowSet, ...]]
    pairs: bool = False
    metrics: tuple[str, ...] = ("accuracy",)
    target: str = "classification"
    labels: tuple[str, ...] | None = None
    unlabeled: str | None = None
    label_separator: str = ","
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    held_out: float = 0.0
    held_out_seed: int = 0
    submitted: Callable[[Sequence[str], Sequence[str]], str] | None = None
    record: dict[str, Any] = dataclasses.field(default_factory=dict)


def normalized_label(label: str) -> str:
    """A label as classes are named: white space folded, characters composed (NFC).

    Labels that look the same are the same.
    """
    return " ".join(unicodedata.normalize("NFC", label).split())


class Example(NamedTuple):
    """One text, or pair of texts.

    Attributes:
        location: "file:line", for errors.
        text: the first text.
        text_pair: the second; None for tasks on single texts.
        label: as `normalized_label` returns it, a list if the table contains one; None if unknown.
        id: of the row, in predictions.
    """

    location: str
    text: str
    text_pair: str | None
    label: str | list[str] | None
    id: str = ""
