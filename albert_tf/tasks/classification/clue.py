"""CLUE (arXiv 2004.05986): a table with one row per task, for the files as published.

Texts, pairs and labels are those of the official baselines (github.com/CLUEbenchmark/CLUE).
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.files import Row, RowReader, read_rows
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    RowSet,
    TableFile,
)


def prediction_lines(ids: Sequence[str], labels: Sequence[str], **fields: str) -> str:
    """Return the JSON lines that the CLUE server accepts: rows are numbered, whatever their ids."""
    objects = ({"id": row, "label": label, **fields} for row, label in enumerate(labels))
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in objects)


def _csl_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """Yield the keywords of a row as one text, separated by spaces as in the official baseline."""
    for row in read_rows(path, header):
        keywords = row.values.get("keyword")
        if isinstance(keywords, list):
            row.values["keyword"] = " ".join(keywords)
        yield row


def _task(
    name: str,
    columns: Columns,
    *,
    train: Sequence[str] = ("train.json",),
    dev: str = "dev.json",
    test: Mapping[str, str] | None = None,
    read: RowReader | None = None,
    **fields: Any,
) -> ClassificationDataset:
    """Return a task of CLUE.

    Args:
        name: as `task_name` writes it.
        columns: of the files; test sets lack the label.
        train: names of the training set, the first existing one of which is read.
        dev: name of the development set.
        test: names of the test set -> name of the file for the server.
        read: returns the rows of a file; by default, its ending selects the format.
        **fields: as in `ClassificationDataset`.
    """
    lower = name.lower()
    test = test or {"test.json": f"{lower}_predict.json"}

    def rows(*files: str) -> tuple[RowSet]:
        found = (TableFile(each, columns, read=read, submission=test.get(each)) for each in files)
        return (RowSet(tuple(found)),)

    return ClassificationDataset(
        name,
        {"train": rows(*train), "eval": rows(dev), "predict": rows(*test)},
        pairs=columns.pair is not None,
        benchmark="CLUE",
        # As the official scripts call it, as the archive is called, and in capitals.
        folders=(lower, f"{lower}_public", name),
        **{"labels": ("0", "1"), "submitted": prediction_lines, **fields},
    )


_TEXT = Columns("sentence", None, "label")
_PAIR = Columns("sentence1", "sentence2", "label")
_NLI: dict[str, Any] = {"labels": ("contradiction", "entailment", "neutral"), "unlabeled": "-"}

_TASKS = (
    _task("AFQMC", _PAIR),
    _task(
        "LCQMC",
        Columns("text_a", "text_b", "label"),
        train=("train.tsv",),
        dev="dev.tsv",
        test={"test.tsv": "lcqmc_predict.json"},
    ),
    _task(
        "TNEWS",
        _TEXT,
        # The server tells the two test sets apart by the name of the file.
        test={
            "test1.1.json": "tnews11_predict.json",
            "test1.0.json": "tnews10_predict.json",
            "test.json": "tnews10_predict.json",
        },
        labels=tuple(str(label) for label in range(100, 117) if label not in (105, 111)),
        # The official baseline adds an empty description.
        submitted=functools.partial(prediction_lines, label_desc=""),
    ),
    _task("IFLYTEK", _TEXT, labels=tuple(map(str, range(119)))),
    _task("CMNLI", _PAIR, **_NLI),
    _task(
        "OCNLI",
        _PAIR,
        train=("train.json", "train.50k.json"),
        test={"test.json": "ocnli_50k_predict.json"},
        **_NLI,
    ),
    _task("CSL", Columns("keyword", "abst", "label"), read=_csl_rows),
)

CLUE = {task.name: task for task in _TASKS}
