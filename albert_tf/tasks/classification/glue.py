"""GLUE (arXiv 1804.07461): a table with one row per task, for the files as published.

A new task of this kind is a new row.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Iterator

from albert_tf.files import exists, read_lines
from albert_tf.tasks.classification.datasets import ClassificationDataset, Columns, Row
from albert_tf.tasks.classification.glue_hub import HUB_FILES, HUB_TASKS, REPOSITORY, HubTask
from albert_tf.tasks.classification.published import (
    Task,
    TaskFile,
    TaskSet,
    published_dataset,
    tsv_rows,
)
from albert_tf.tasks.classification.readers import read_tsv

logger = logging.getLogger(__name__)


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
    for row in tsv_rows(path, header):
        if ((row.values.get("#1 ID"), row.values.get("#2 ID")) in dev_ids) == dev:
            yield row


def _sets(train, dev, test, submission: str, read=tsv_rows, header=None) -> dict:
    """The usual files: `train.tsv` and `dev.tsv` of the same columns, `test.tsv` of others."""
    return {
        "train": (TaskSet((TaskFile("train.tsv", train, header, read),)),),
        "eval": (TaskSet((TaskFile("dev.tsv", dev, header, read),)),),
        "predict": (TaskSet((TaskFile("test.tsv", test),), submission=submission),),
    }


def _pairs(first: str, second: str, label: str, id: str, submission: str, read=tsv_rows) -> dict:
    columns = Columns(first, second, label, id)
    return _sets(columns, columns, columns, submission, read)


def _mrpc() -> dict[str, tuple[TaskSet, ...]]:
    labeled = Columns("#1 String", "#2 String", "Quality")
    train, test = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
    in_dev, not_in_dev = (functools.partial(_published_mrpc, dev=dev) for dev in (True, False))
    return {
        "train": (
            TaskSet((TaskFile("train.tsv", labeled), TaskFile(train, labeled, read=not_in_dev))),
        ),
        "eval": (
            TaskSet(
                (
                    TaskFile("dev.tsv", labeled),
                    TaskFile(train, labeled, read=in_dev, needs="dev_ids.tsv"),
                    TaskFile(test, labeled),  # as published before GLUE: a training and a test set
                )
            ),
        ),
        "predict": (
            TaskSet(
                (
                    TaskFile("test.tsv", labeled._replace(id="index")),
                    TaskFile(test, labeled),
                ),
                submission="MRPC.tsv",
            ),
        ),
    }


_COLA = ("source", "label", "note", "sentence")
_NLI = Columns("sentence1", "sentence2", "gold_label", "index")
_MNLI_LABELS = ("contradiction", "entailment", "neutral")
_MNLI_TRAIN = (TaskSet((TaskFile("train.tsv", _NLI),)),)

_TASKS = (
    Task(
        "CoLA",
        ("CoLA",),
        {
            "train": (
                TaskSet((TaskFile("train.tsv", Columns("sentence", None, "label"), _COLA),)),
            ),
            "eval": (TaskSet((TaskFile("dev.tsv", Columns("sentence", None, "label"), _COLA),)),),
            "predict": (
                TaskSet(
                    (TaskFile("test.tsv", Columns("sentence", id="index")),),
                    submission="CoLA.tsv",
                ),
            ),
        },
        ("matthew_corr", "accuracy"),
    ),
    Task(
        "SST-2",
        ("SST-2",),
        _sets(
            Columns("sentence", None, "label"),
            Columns("sentence", None, "label"),
            Columns("sentence", id="index"),
            "SST-2.tsv",
        ),
    ),
    Task("MRPC", ("MRPC",), _mrpc(), ("accuracy", "f1")),
    Task(
        "STS-B",
        ("STS-B",),
        _pairs("sentence1", "sentence2", "score", "index", "STS-B.tsv"),
        ("pearson", "spearman", "mse"),
        labels=None,
        target="regression",
    ),
    Task(
        "QQP",
        ("QQP",),
        _pairs("question1", "question2", "is_duplicate", "id", "QQP.tsv", _whole_rows),
        ("accuracy", "f1"),
    ),
    Task(
        "MNLI",
        ("MNLI",),
        {
            "train": _MNLI_TRAIN,
            "eval": (
                TaskSet((TaskFile("dev_matched.tsv", _NLI),), "matched"),
                TaskSet((TaskFile("dev_mismatched.tsv", _NLI),), "mismatched", "_mismatched"),
            ),
            "predict": (
                TaskSet((TaskFile("test_matched.tsv", _NLI),), "matched", "", "MNLI-m.tsv"),
                TaskSet(
                    (TaskFile("test_mismatched.tsv", _NLI),),
                    "mismatched",
                    "_mismatched",
                    "MNLI-mm.tsv",
                ),
            ),
        },
        labels=_MNLI_LABELS,
        unlabeled="-",
    ),
    # The original's name for MNLI, evaluated on the mismatched rows only.
    Task(
        "MisMNLI",
        ("MNLI",),
        {
            "train": _MNLI_TRAIN,
            "eval": (TaskSet((TaskFile("dev_mismatched.tsv", _NLI),)),),
            "predict": (
                TaskSet((TaskFile("test_mismatched.tsv", _NLI),), submission="MNLI-mm.tsv"),
            ),
        },
        labels=_MNLI_LABELS,
        unlabeled="-",
    ),
    Task(
        "QNLI",
        ("QNLI",),
        _pairs("question", "sentence", "label", "index", "QNLI.tsv"),
        labels=("entailment", "not_entailment"),
    ),
    Task(
        "RTE",
        ("RTE",),
        _pairs("sentence1", "sentence2", "label", "index", "RTE.tsv"),
        labels=("entailment", "not_entailment"),
    ),
    Task("WNLI", ("WNLI",), _pairs("sentence1", "sentence2", "label", "index", "WNLI.tsv")),
    Task(
        "AX",
        ("AX", "diagnostic"),
        {
            "train": (),
            "eval": (),
            "predict": (
                TaskSet(
                    (TaskFile("diagnostic.tsv", Columns("sentence1", "sentence2", id="index")),),
                    "ax",
                    "_ax",
                    "AX.tsv",
                ),
            ),
        },
        labels=_MNLI_LABELS,
        missing=dict.fromkeys(
            ("train", "eval"),
            "`task_name`=AX: has no labeled rows; predict it (`do_predict`) with the `output_dir` "
            "of a model that was trained with `task_name`=MNLI",
        ),
    ),
)

GLUE = {task.name: task for task in _TASKS}

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
        data_dir: folder with one subfolder per task, or the folder of the task itself; local or
            `hf://datasets/ORGANIZATION/NAME`. Its files are those of GLUE, or those of the Hugging
            Face Hub. None to take the latter from the Hub.
        splits: whose files are needed.

    Raises:
        InputError: one of these files is missing.
    """
    task, hub = GLUE[name], HUB_TASKS.get(name)
    if hub is None:  # a task that was added to the table, and that the Hub's data set lacks
        return published_dataset(task, "GLUE", data_dir, splits)
    sets = {
        split: tuple(_with_hub_file(rows, hub) for rows in sets)
        for split, sets in task.sets.items()
    }
    task = dataclasses.replace(task, folders=(*task.folders, hub.folder), sets=sets)
    return published_dataset(task, "GLUE", data_dir or REPOSITORY, splits)


def _with_hub_file(rows: TaskSet, task: HubTask) -> TaskSet:
    """Adds the files of the same rows that the Hugging Face Hub has."""
    file = TaskFile(HUB_FILES[rows.files[0].name], task.columns, read=task.read)
    return rows._replace(files=(*rows.files, file))
