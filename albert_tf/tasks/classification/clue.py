"""CLUE (arXiv 2004.05986): a table with one row per task, for the files as published.

Texts, pairs and labels are those of the official baselines (github.com/CLUEbenchmark/CLUE).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from albert_tf.tasks.classification.datasets import ClassificationDataset, Columns, Row
from albert_tf.tasks.classification.published import (
    Task,
    TaskFile,
    TaskSet,
    published_dataset,
)
from albert_tf.tasks.classification.readers import read_rows


def _csl_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """The keywords of a row as one text, separated by spaces as in the official baseline."""
    for row in read_rows(path, header):
        keywords = row.values.get("keyword")
        if isinstance(keywords, list):
            row.values["keyword"] = " ".join(keywords)
        yield row


def prediction_lines(ids: Sequence[str], labels: Sequence[str]) -> str:
    """The JSON lines that the CLUE server accepts: rows are numbered, whatever their ids."""
    objects = ({"id": row, "label": label} for row, label in enumerate(labels))
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in objects)


def _tnews_lines(ids: Sequence[str], labels: Sequence[str]) -> str:
    """The official baseline adds an empty description."""
    objects = ({"id": row, "label": label, "label_desc": ""} for row, label in enumerate(labels))
    return "".join(f"{json.dumps(each)}\n" for each in objects)


def _sets(
    columns: Columns, submission: str, train=("train.json",), test=("test.json",), read=read_rows
) -> dict[str, tuple[TaskSet, ...]]:
    """The usual files: JSON lines with the same fields, except that test rows have no label."""
    return {
        "train": (TaskSet(tuple(TaskFile(name, columns, read=read) for name in train)),),
        "eval": (TaskSet((TaskFile("dev.json", columns, read=read),)),),
        "predict": (
            TaskSet(tuple(TaskFile(name, columns, read=read) for name in test), "", "", submission),
        ),
    }


def _lcqmc() -> dict[str, tuple[TaskSet, ...]]:
    columns = Columns("text_a", "text_b", "label")
    return {
        "train": (TaskSet((TaskFile("train.tsv", columns),)),),
        "eval": (TaskSet((TaskFile("dev.tsv", columns),)),),
        "predict": (TaskSet((TaskFile("test.tsv", columns),), submission="lcqmc_predict.json"),),
    }


def _tnews() -> dict[str, tuple[TaskSet, ...]]:
    """There are two test sets, and the server distinguishes them by the name of the file."""
    columns = Columns("sentence", None, "label")
    versions = (("test1.1.json", "11"), ("test1.0.json", "10"), ("test.json", "10"))
    tests = tuple(
        TaskFile(name, columns, read=read_rows, submission=f"tnews{version}_predict.json")
        for name, version in versions
    )
    return {**_sets(columns, ""), "predict": (TaskSet(tests),)}


def _folders(name: str) -> tuple[str, ...]:
    """As the official scripts call the folder, as the archive is called, and in capitals."""
    return name.lower(), f"{name.lower()}_public", name


_PAIR = Columns("sentence1", "sentence2", "label")
_NLI_LABELS = ("contradiction", "entailment", "neutral")

_TASKS = (
    Task(
        "AFQMC",
        _folders("AFQMC"),
        _sets(_PAIR, "afqmc_predict.json"),
        submitted=prediction_lines,
    ),
    Task("LCQMC", _folders("LCQMC"), _lcqmc(), submitted=prediction_lines),
    Task(
        "TNEWS",
        _folders("TNEWS"),
        _tnews(),
        labels=tuple(str(label) for label in range(100, 117) if label not in (105, 111)),
        submitted=_tnews_lines,
    ),
    Task(
        "IFLYTEK",
        _folders("IFLYTEK"),
        _sets(Columns("sentence", None, "label"), "iflytek_predict.json"),
        labels=tuple(map(str, range(119))),
        submitted=prediction_lines,
    ),
    Task(
        "CMNLI",
        _folders("CMNLI"),
        _sets(_PAIR, "cmnli_predict.json"),
        labels=_NLI_LABELS,
        unlabeled="-",
        submitted=prediction_lines,
    ),
    Task(
        "OCNLI",
        _folders("OCNLI"),
        _sets(_PAIR, "ocnli_50k_predict.json", train=("train.json", "train.50k.json")),
        labels=_NLI_LABELS,
        unlabeled="-",
        submitted=prediction_lines,
    ),
    Task(
        "CSL",
        _folders("CSL"),
        _sets(Columns("keyword", "abst", "label"), "csl_predict.json", read=_csl_rows),
        submitted=prediction_lines,
    ),
)

CLUE = {task.name: task for task in _TASKS}


def clue_dataset(name: str, data_dir: str | None, splits: tuple[str, ...]) -> ClassificationDataset:
    """A task of CLUE.

    Args:
        name: key of `CLUE`.
        data_dir: folder with one subfolder per task, or the folder of the task itself.
        splits: whose files are needed.

    Raises:
        InputError: one of these files is missing.
    """
    return published_dataset(CLUE[name], "CLUE", data_dir, splits)
