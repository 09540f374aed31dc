"""GLUE (arXiv 1804.07461): a table with one row per task, for the files as published.

A new task of this kind is a new row.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, read_lines
from albert_tf.finetuning.classification.datasets import (
    ClassificationDataset,
    Columns,
    Row,
    RowReader,
    RowSet,
    TableFile,
)
from albert_tf.finetuning.classification.readers import read_tsv

logger = logging.getLogger(__name__)


def _rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    for row in read_tsv(path, header):
        if row.problem:
            raise InputError(f"{row.location}: {row.problem}")
        yield row


def _whole_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """Skips rows with missing fields, which QQP has; the original skips them too."""
    broken = []
    for row in read_tsv(path, header):
        if row.problem:
            broken.append(row)
        else:
            yield row
    if broken:
        fields = broken[0].problem.split(" (")[0]
        logger.info(
            "%s: skipped %s rows, the first at %s (%s)",
            path,
            f"{len(broken):,}",
            broken[0].location,
            fields,
        )


def _published_mrpc(path: str, header: tuple[str, ...] | None, dev: bool) -> Iterator[Row]:
    """The rows of `msr_paraphrase_train.txt` that `dev_ids.tsv` names, or the others."""
    ids = os.path.join(os.path.dirname(path), "dev_ids.tsv")
    dev_ids = {tuple(line.split("\t")) for line in read_lines(ids)} if exists(ids) else set()
    for row in _rows(path, header):
        if ((row.values.get("#1 ID"), row.values.get("#2 ID")) in dev_ids) == dev:
            yield row


class _File(NamedTuple):
    """A file in the task's folder; it is read only if the file `needs` exists too."""

    name: str
    columns: Columns
    header: tuple[str, ...] | None = None
    read: RowReader = _rows
    needs: str | None = None


class _Set(NamedTuple):
    """Rows of the first of `files` that exists; the other fields as in `RowSet`."""

    files: tuple[_File, ...]
    name: str = ""
    suffix: str = ""
    submission: str | None = None


@dataclasses.dataclass(frozen=True)
class _Glue:
    """A task; `folders` are the names it is published under; see `ClassificationDataset`."""

    name: str
    folders: tuple[str, ...]
    sets: dict[str, tuple[_Set, ...]]
    metrics: tuple[str, ...] = ("accuracy",)
    labels: tuple[str, ...] | None = ("0", "1")
    target: str = "classification"
    unlabelled: str | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)


def _sets(train, dev, test, submission: str, read=_rows, header=None) -> dict:
    """The usual files: `train.tsv` and `dev.tsv` of the same columns, `test.tsv` of others."""
    return {
        "train": (_Set((_File("train.tsv", train, header, read),)),),
        "eval": (_Set((_File("dev.tsv", dev, header, read),)),),
        "predict": (_Set((_File("test.tsv", test),), submission=submission),),
    }


def _pairs(first: str, second: str, label: str, id: str, submission: str, read=_rows) -> dict:
    columns = Columns(first, second, label, id)
    return _sets(columns, columns, columns, submission, read)


def _mrpc() -> dict[str, tuple[_Set, ...]]:
    labelled = Columns("#1 String", "#2 String", "Quality")
    train, test = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
    in_dev, not_in_dev = (functools.partial(_published_mrpc, dev=dev) for dev in (True, False))
    return {
        "train": (_Set((_File("train.tsv", labelled), _File(train, labelled, read=not_in_dev))),),
        "eval": (
            _Set(
                (
                    _File("dev.tsv", labelled),
                    _File(train, labelled, read=in_dev, needs="dev_ids.tsv"),
                    _File(test, labelled),  # as published before GLUE: a training and a test set
                )
            ),
        ),
        "predict": (
            _Set(
                (
                    _File("test.tsv", labelled._replace(id="index")),
                    _File(test, labelled),
                ),
                submission="MRPC.tsv",
            ),
        ),
    }


_COLA = ("source", "label", "note", "sentence")
_NLI = Columns("sentence1", "sentence2", "gold_label", "index")
_MNLI_LABELS = ("contradiction", "entailment", "neutral")
_MNLI_TRAIN = (_Set((_File("train.tsv", _NLI),)),)

_TASKS = (
    _Glue(
        "CoLA",
        ("CoLA",),
        {
            "train": (_Set((_File("train.tsv", Columns("sentence", None, "label"), _COLA),)),),
            "eval": (_Set((_File("dev.tsv", Columns("sentence", None, "label"), _COLA),)),),
            "predict": (
                _Set(
                    (_File("test.tsv", Columns("sentence", id="index")),),
                    submission="CoLA.tsv",
                ),
            ),
        },
        ("matthew_corr", "accuracy"),
    ),
    _Glue(
        "SST-2",
        ("SST-2",),
        _sets(
            Columns("sentence", None, "label"),
            Columns("sentence", None, "label"),
            Columns("sentence", id="index"),
            "SST-2.tsv",
        ),
    ),
    _Glue("MRPC", ("MRPC",), _mrpc(), ("accuracy", "f1")),
    _Glue(
        "STS-B",
        ("STS-B",),
        _pairs("sentence1", "sentence2", "score", "index", "STS-B.tsv"),
        ("pearson", "spearman", "mse"),
        labels=None,
        target="regression",
    ),
    _Glue(
        "QQP",
        ("QQP",),
        _pairs("question1", "question2", "is_duplicate", "id", "QQP.tsv", _whole_rows),
        ("accuracy", "f1"),
    ),
    _Glue(
        "MNLI",
        ("MNLI",),
        {
            "train": _MNLI_TRAIN,
            "eval": (
                _Set((_File("dev_matched.tsv", _NLI),), "matched"),
                _Set((_File("dev_mismatched.tsv", _NLI),), "mismatched", "_mismatched"),
            ),
            "predict": (
                _Set((_File("test_matched.tsv", _NLI),), "matched", "", "MNLI-m.tsv"),
                _Set(
                    (_File("test_mismatched.tsv", _NLI),),
                    "mismatched",
                    "_mismatched",
                    "MNLI-mm.tsv",
                ),
            ),
        },
        labels=_MNLI_LABELS,
        unlabelled="-",
    ),
    # The original's name for MNLI, evaluated on the mismatched rows only.
    _Glue(
        "MisMNLI",
        ("MNLI",),
        {
            "train": _MNLI_TRAIN,
            "eval": (_Set((_File("dev_mismatched.tsv", _NLI),)),),
            "predict": (_Set((_File("test_mismatched.tsv", _NLI),), submission="MNLI-mm.tsv"),),
        },
        labels=_MNLI_LABELS,
        unlabelled="-",
    ),
    _Glue(
        "QNLI",
        ("QNLI",),
        _pairs("question", "sentence", "label", "index", "QNLI.tsv"),
        labels=("entailment", "not_entailment"),
    ),
    _Glue(
        "RTE",
        ("RTE",),
        _pairs("sentence1", "sentence2", "label", "index", "RTE.tsv"),
        labels=("entailment", "not_entailment"),
    ),
    _Glue("WNLI", ("WNLI",), _pairs("sentence1", "sentence2", "label", "index", "WNLI.tsv")),
    _Glue(
        "AX",
        ("AX", "diagnostic"),
        {
            "train": (),
            "eval": (),
            "predict": (
                _Set(
                    (_File("diagnostic.tsv", Columns("sentence1", "sentence2", id="index")),),
                    "ax",
                    "_ax",
                    "AX.tsv",
                ),
            ),
        },
        labels=_MNLI_LABELS,
        missing=dict.fromkeys(
            ("train", "eval"),
            "`task_name`=AX: has no labelled rows; predict it (`do_predict`) with the `output_dir` "
            "of a model that was trained with `task_name`=MNLI",
        ),
    ),
)

GLUE = {task.name: task for task in _TASKS}

SUBMISSION_FOLDER = "submission"

# The files that the GLUE server expects, and the number of rows below the header of each.
SUBMISSION_ROWS = {
    "CoLA.tsv": 1_063,
    "SST-2.tsv": 1_821,
    "MRPC.tsv": 1_725,
    "STS-B.tsv": 1_379,
    "QQP.tsv": 390_965,
    "MNLI-m.tsv": 9_796,
    "MNLI-mm.tsv": 9_847,
    "QNLI.tsv": 5_463,
    "RTE.tsv": 3_000,
    "WNLI.tsv": 146,
    "AX.tsv": 1_104,
}


def glue_dataset(name: str, data_dir: str | None, splits: tuple[str, ...]) -> ClassificationDataset:
    """A task of GLUE.

    Args:
        name: key of `GLUE`.
        data_dir: folder with one subfolder per task, or the folder of the task itself.
        splits: whose files are needed.

    Raises:
        InputError: one of these files is missing.
    """
    row = GLUE[name]
    if data_dir is None and splits:
        raise InputError(f"`data_dir`: `task_name`={name} needs the folder of GLUE")
    sets = {
        split: tuple(_row_set(each, row.folders, data_dir or "") for each in row.sets[split])
        for split in splits
    }
    return ClassificationDataset(
        name=name,
        sets={split: sets.get(split, ()) for split in row.sets},
        pairs=row.sets["predict"][0].files[0].columns.pair is not None,
        metrics=row.metrics,
        target=row.target,
        labels=row.labels,
        unlabelled=row.unlabelled,
        missing=row.missing,
    )


def _row_set(wanted: _Set, folders: tuple[str, ...], data_dir: str) -> RowSet:
    places = [*(os.path.join(data_dir, folder) for folder in folders), data_dir]
    for file in wanted.files:
        for place in places:
            needed = [file.name] if file.needs is None else [file.name, file.needs]
            if all(exists(os.path.join(place, name)) for name in needed):
                path = os.path.join(place, file.name)
                table = TableFile(path, file.columns, file.header, empty_texts=True, read=file.read)
                return RowSet((table,), wanted.name, wanted.suffix, wanted.submission)
    expected = [os.path.join(places[0], file.name) for file in wanted.files]
    raise InputError(f"`data_dir`={data_dir}: contains no {' or '.join(expected)}")
