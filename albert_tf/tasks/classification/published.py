"""Tasks of a benchmark as it publishes them: which files, which columns, and what is submitted.

A task is a row of the table of its benchmark: `classification.glue`, `classification.clue`.
"""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, matches
from albert_tf.hub.datasets import local_folder
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    Row,
    RowReader,
    RowSet,
    TableFile,
)
from albert_tf.tasks.classification.readers import read_tsv

# Where `--submission` writes, in the output folder.
SUBMISSION_FOLDER = "submission"


def tsv_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """The rows of tab-separated values, whatever the file is called.

    Raises:
        InputError: the file is missing or invalid, or a row has too many or too few fields.
    """
    for row in read_tsv(path, header):
        if row.problem:
            raise InputError(f"{row.location}: {row.problem}")
        yield row


def index_and_prediction(ids: Sequence[str], labels: Sequence[str]) -> str:
    """The table that the GLUE server accepts."""
    rows = (("index", "prediction"), *zip(ids, labels, strict=True))
    return "".join(f"{id}\t{label}\n" for id, label in rows)


class TaskFile(NamedTuple):
    """A file in the task's folder.

    Attributes:
        name: of the file, or a glob.
        columns: the columns to read.
        header: as in `TableFile`.
        read: returns the rows.
        needs: name of another file; this one is read only if that one exists too.
        submission: as in `RowSet`, if it depends on the file.
    """

    name: str
    columns: Columns
    header: tuple[str, ...] | None = None
    read: RowReader = tsv_rows
    needs: str | None = None
    submission: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of all files that must exist."""
        return [self.name, self.needs] if self.needs else [self.name]


class TaskSet(NamedTuple):
    """Rows of the first of `files` that exists; the other fields are those of `RowSet`."""

    files: tuple[TaskFile, ...]
    name: str = ""
    suffix: str = ""
    submission: str | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of a benchmark.

    Attributes:
        name: as `task_name` writes it.
        folders: names of the folder with its files.
        sets: split ("train", "eval", "predict") -> its sets.
        submitted: ids and labels of the predicted rows -> content of the file to submit.

    The other attributes are those of `ClassificationDataset`.
    """

    name: str
    folders: tuple[str, ...]
    sets: dict[str, tuple[TaskSet, ...]]
    metrics: tuple[str, ...] = ("accuracy",)
    labels: tuple[str, ...] | None = ("0", "1")
    target: str = "classification"
    unlabeled: str | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    submitted: Callable[[Sequence[str], Sequence[str]], str] = index_and_prediction


def published_dataset(
    task: Task, benchmark: str, data_dir: str | None, splits: tuple[str, ...]
) -> ClassificationDataset:
    """The data set of a task.

    Args:
        task: of a benchmark.
        benchmark: its name, for errors.
        data_dir: folder with one subfolder per task, or the folder of the task itself; local or
            `hf://datasets/ORGANIZATION/NAME`.
        splits: whose files are needed.

    Raises:
        InputError: one of these files is missing.
    """
    if data_dir is None and splits:
        raise InputError(f"`data_dir`: `task_name`={task.name} needs the folder of {benchmark}")
    wanted = {split: task.sets[split] for split in splits}
    folder = local_folder(data_dir or "", _alternatives(task, wanted), "data_dir")
    sets = {
        split: tuple(_row_set(rows, task.folders, folder) for rows in sets)
        for split, sets in wanted.items()
    }
    return ClassificationDataset(
        name=task.name,
        sets={split: sets.get(split, ()) for split in task.sets},
        pairs=task.sets["predict"][0].files[0].columns.pair is not None,
        metrics=task.metrics,
        target=task.target,
        labels=task.labels,
        unlabeled=task.unlabeled,
        missing=task.missing,
        submitted=task.submitted,
    )


def _alternatives(task: Task, wanted: dict[str, tuple[TaskSet, ...]]) -> list[list[str]]:
    """For each set, the paths of which one must exist."""
    return [
        [
            os.path.join(folder, name)
            for file in rows.files
            for name in file.names
            for folder in (*task.folders, "")
        ]
        for sets in wanted.values()
        for rows in sets
    ]


def _row_set(wanted: TaskSet, folders: tuple[str, ...], data_dir: str) -> RowSet:
    places = [*(os.path.join(data_dir, folder) for folder in folders), data_dir]
    for file in wanted.files:
        for place in places:
            if file.needs is not None and not exists(os.path.join(place, file.needs)):
                continue
            if paths := matches(os.path.join(glob.escape(place), file.name)):
                tables = (
                    TableFile(path, file.columns, file.header, empty_texts=True, read=file.read)
                    for path in paths
                )
                submission = file.submission or wanted.submission
                return RowSet(tuple(tables), wanted.name, wanted.suffix, submission)
    expected = [
        os.path.join(places[-2 if "*" in file.name else 0], file.name) for file in wanted.files
    ]
    raise InputError(f"`data_dir`={data_dir}: contains no {' or '.join(expected)}")
