"""GLUE (arXiv 1804.07461) and CLUE (arXiv 2004.05986): a row of a table for each of their tasks.

A row describes the files as published. Those of GLUE are also on the Hugging Face Hub
(`nyu-mll/glue`): Parquet files with other column names, in which labels are numbers. Texts, pairs
and labels of CLUE are those of the official baselines (github.com/CLUEbenchmark/CLUE).
"""

import functools
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.files import Row, RowReader, exists, read_lines, read_rows, read_tsv
from albert_tf.hub.huggingface import LANGUAGE
from albert_tf.logs import counted
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    RowSet,
    TableFile,
)

logger = logging.getLogger(__name__)

REPOSITORY = "hf://datasets/nyu-mll/glue"

# How the names of the files of a split begin: of GLUE, as published; and on the Hub.
_FILES = {"train": "train", "eval": "dev", "predict": "test"}
HUB_SPLITS = {"train": "train", "eval": "validation", "predict": "test"}


def by_name(*tasks: ClassificationDataset) -> dict[str, ClassificationDataset]:
    """Return name -> task."""
    return {task.name: task for task in tasks}


def two_columns(header: tuple[str, str], ids: Sequence[str], labels: Sequence[str]) -> str:
    """Return a table, with "index" and "prediction" as the header the one for the GLUE server."""
    rows = (header, *zip(ids, labels, strict=True))
    return "".join(f"{id}\t{label}\n" for id, label in rows)


def _glue(
    name: str,
    columns: Columns,
    *,
    hub: Columns | None = None,
    header: tuple[str, ...] | None = None,
    read: RowReader | None = None,
    folders: tuple[str, ...] = (),
    parts: Mapping[str, tuple[str, str, str]] | None = None,
    earlier: Mapping[str, tuple[TableFile, ...]] | None = None,
    labels: tuple[str, ...] | None = ("0", "1"),
    hub_labels: tuple[str, ...] | None = None,
    repository: str | None = REPOSITORY,
    **fields: Any,
) -> ClassificationDataset:
    """Return a task of GLUE.

    Args:
        name: as `task_name` writes it.
        columns: of the published files; test sets lack the label, others may lack the id.
        hub: columns of the texts on the Hub, if they differ.
        header: of the training and development set, if their first line is already a row.
        read: returns the rows of these sets.
        folders: of the published files, if they are not called like the task.
        parts: ending of the files of a part of the development and test set -> name, suffix and
            submission of the part, as in `RowSet`.
        earlier: split -> files of before GLUE, which are read if GLUE's are missing.
        labels: in order; None for numbers.
        hub_labels: in the order of the Hub's numbers, if that differs.
        repository, **fields: as in `ClassificationDataset`.
    """
    folders = folders or (name,)
    hub = (hub or columns)._replace(label="label", id="idx")

    def files(split: str, part: str = "") -> tuple[TableFile, ...]:
        how: dict[str, Any] = {} if split == "predict" else {"header": header, "read": read}
        numbered = hub_labels or labels or ()
        return (
            TableFile(f"{_FILES[split]}{part}.tsv", columns, **how),
            *(earlier or {}).get(split, ()),
            TableFile(f"{HUB_SPLITS[split]}{part}-*.parquet", hub, numbered_labels=numbered),
        )

    parts = parts or {"": ("", "", f"{name}.tsv")}
    sets = {
        "train": (RowSet(files("train")),),
        "eval": tuple(RowSet(files("eval", part), *names[:2]) for part, names in parts.items()),
        "predict": tuple(RowSet(files("predict", part), *names) for part, names in parts.items()),
    }
    return ClassificationDataset(
        name,
        **{"sets": sets, **fields},
        pairs=columns.pair is not None,
        labels=labels,
        benchmark="GLUE",
        folders=(*folders, folders[0].lower().replace("-", "")),
        repository=repository,
        submitted=functools.partial(two_columns, ("index", "prediction")),
    )


def _whole_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """Skip rows with missing fields, which QQP has; the original skips them too."""
    broken = []
    for row in read_tsv(path, header):
        if row.problem:
            broken.append(row)
        else:
            yield row
    if broken:
        fields = broken[0].problem.split(" (")[0]
        logger.info(
            "%s: skipped %s, the first at %s (%s)",
            path,
            counted(len(broken), "row"),
            broken[0].location,
            fields,
        )


def _mrpc_rows(dev: bool) -> RowReader:
    """Read those rows of a file that `dev_ids.tsv` names, or the others."""

    def read(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
        ids = os.path.join(os.path.dirname(path), "dev_ids.tsv")
        dev_ids = {tuple(line.split("\t")) for line in read_lines(ids)} if exists(ids) else set()
        for row in read_tsv(path, header):
            if ((row.values.get("#1 ID"), row.values.get("#2 ID")) in dev_ids) == dev:
                yield row

    return read


_MRPC = Columns("#1 String", "#2 String", "Quality")
_MRPC_TRAIN, _MRPC_TEST = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
_NLI = Columns("sentence1", "sentence2", "label", "index")
_MNLI: dict[str, Any] = {
    "columns": _NLI._replace(label="gold_label"),
    "hub": Columns("premise", "hypothesis"),
    "labels": ("contradiction", "entailment", "neutral"),
    "hub_labels": ("entailment", "neutral", "contradiction"),
}

_AX = (
    TableFile("diagnostic.tsv", _NLI),
    TableFile("test-*.parquet", Columns("premise", "hypothesis", id="idx")),
)

GLUE = by_name(
    _glue(
        "CoLA",
        Columns("sentence", None, "label", "index"),
        header=("source", "label", "note", "sentence"),
        metrics=("matthew_corr", "accuracy"),
    ),
    _glue("SST-2", Columns("sentence", None, "label", "index")),
    _glue(
        "MRPC",
        _MRPC._replace(id="index"),
        hub=Columns("sentence1", "sentence2"),
        # Before GLUE, it was a training and a test set.
        earlier={
            "train": (TableFile(_MRPC_TRAIN, _MRPC, read=_mrpc_rows(dev=False)),),
            "eval": (
                TableFile(_MRPC_TRAIN, _MRPC, read=_mrpc_rows(dev=True), needs="dev_ids.tsv"),
                TableFile(_MRPC_TEST, _MRPC, read=read_tsv),
            ),
            "predict": (TableFile(_MRPC_TEST, _MRPC, read=read_tsv),),
        },
        metrics=("accuracy", "f1"),
    ),
    _glue(
        "STS-B",
        _NLI._replace(label="score"),
        labels=None,
        target="regression",
        metrics=("pearson", "spearman", "mse"),
    ),
    _glue(
        "QQP",
        Columns("question1", "question2", "is_duplicate", "id"),
        read=_whole_rows,
        metrics=("accuracy", "f1"),
    ),
    _glue(
        "MNLI",
        **_MNLI,
        parts={
            "_matched": ("matched", "", "MNLI-m.tsv"),
            "_mismatched": ("mismatched", "_mismatched", "MNLI-mm.tsv"),
        },
        unlabeled="-",
    ),
    # The original's name for MNLI, evaluated on the mismatched rows only.
    _glue(
        "MisMNLI",
        **_MNLI,
        folders=("MNLI",),
        parts={"_mismatched": ("", "", "MNLI-mm.tsv")},
        unlabeled="-",
    ),
    _glue(
        "QNLI",
        Columns("question", "sentence", "label", "index"),
        labels=("entailment", "not_entailment"),
    ),
    _glue("RTE", _NLI, labels=("entailment", "not_entailment")),
    _glue("WNLI", _NLI),
    _glue(
        "AX",
        **_MNLI,
        folders=("AX", "diagnostic"),
        sets={"train": (), "eval": (), "predict": (RowSet(_AX, "ax", "_ax", "AX.tsv"),)},
        missing=dict.fromkeys(
            ("train", "eval"),
            "`task_name`=AX: has no labeled rows; predict it (`do_predict`) with the `output_dir` "
            "of a model that was trained with `task_name`=MNLI",
        ),
    ),
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


def single_files(
    name: str,
    files: Sequence[Sequence[str]],
    columns: Columns,
    *,
    hub: Columns | None = None,
    hub_labels: tuple[str, ...] = (),
    read: RowReader | None = None,
    submissions: Mapping[str, str] | None = None,
    **fields: Any,
) -> ClassificationDataset:
    """Return a task with a file for each split.

    Args:
        name: as `task_name` writes it.
        files: names of those of "train", "eval" and "predict"; the first existing one is read.
        columns: of the files; test sets may lack the label.
        hub: columns of the Parquet files on the Hub, if they are read, too.
        hub_labels: what numbers in these stand for.
        read: returns the rows of a file; by default, its ending selects the format.
        submissions: name of a test set -> name of the file for the server.
        **fields: as in `ClassificationDataset`.
    """

    def rows(split: str, names: Sequence[str]) -> tuple[RowSet, ...]:
        found = [
            TableFile(each, columns, read=read, submission=(submissions or {}).get(each))
            for each in names
        ]
        if hub:
            path = f"{LANGUAGE}/{HUB_SPLITS[split]}-*.parquet"
            found.append(TableFile(path, hub, numbered_labels=hub_labels))
        return (RowSet(tuple(found)),)

    sets = {split: rows(split, names) for split, names in zip(HUB_SPLITS, files, strict=True)}
    return ClassificationDataset(name, sets, pairs=columns.pair is not None, **fields)


def _clue(
    name: str,
    columns: Columns,
    *,
    train: Sequence[str] = ("train.json",),
    dev: str = "dev.json",
    test: Mapping[str, str] | None = None,
    **fields: Any,
) -> ClassificationDataset:
    """Return a task of CLUE; `test` has the files of the test set, as `submissions`."""
    lower = name.lower()
    test = test or {"test.json": f"{lower}_predict.json"}
    return single_files(
        name,
        (train, (dev,), tuple(test)),
        columns,
        submissions=test,
        benchmark="CLUE",
        # As the official scripts call it, as the archive is called, and in capitals.
        folders=(lower, f"{lower}_public", name),
        **{"labels": ("0", "1"), "submitted": prediction_lines, **fields},
    )


_TEXT = Columns("sentence", None, "label")
_PAIR = Columns("sentence1", "sentence2", "label")
_CLUE_NLI: dict[str, Any] = {"labels": ("contradiction", "entailment", "neutral"), "unlabeled": "-"}

CLUE = by_name(
    _clue("AFQMC", _PAIR),
    _clue(
        "LCQMC",
        Columns("text_a", "text_b", "label"),
        train=("train.tsv",),
        dev="dev.tsv",
        test={"test.tsv": "lcqmc_predict.json"},
    ),
    _clue(
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
    _clue("IFLYTEK", _TEXT, labels=tuple(map(str, range(119)))),
    _clue("CMNLI", _PAIR, **_CLUE_NLI),
    _clue(
        "OCNLI",
        _PAIR,
        train=("train.json", "train.50k.json"),
        test={"test.json": "ocnli_50k_predict.json"},
        **_CLUE_NLI,
    ),
    _clue("CSL", Columns("keyword", "abst", "label"), read=_csl_rows),
)
