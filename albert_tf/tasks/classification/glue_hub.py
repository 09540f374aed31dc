"""GLUE as the Hugging Face Hub publishes it: `nyu-mll/glue`, Parquet files by task and split.

The rows, their order and their ids are those of the published .tsv files. Column names differ, and
labels are numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.tasks.classification.datasets import Columns, Row, RowReader
from albert_tf.tasks.classification.readers import read_rows

REPOSITORY = "hf://datasets/nyu-mll/glue"

# Stands for a label that is not known, which the Hub writes as -1.
UNLABELED = "-"


class HubTask(NamedTuple):
    """A task on the Hub.

    Attributes:
        folder: of its files.
        text: column of the first text.
        pair: column of the second text.
        labels: as the .tsv files write them, in the order of the Hub's numbers; None for numbers
            that are the labels.
    """

    folder: str
    text: str
    pair: str | None = None
    labels: tuple[str, ...] | None = ("0", "1")

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.pair, "label", "idx")

    @property
    def read(self) -> RowReader:
        return functools.partial(_read, labels=self.labels) if self.labels else read_rows


_NLI_LABELS = ("entailment", "neutral", "contradiction")
_ENTAILMENT = ("entailment", "not_entailment")

HUB_TASKS = {
    "CoLA": HubTask("cola", "sentence"),
    "SST-2": HubTask("sst2", "sentence"),
    "MRPC": HubTask("mrpc", "sentence1", "sentence2"),
    "STS-B": HubTask("stsb", "sentence1", "sentence2", None),
    "QQP": HubTask("qqp", "question1", "question2"),
    "MNLI": HubTask("mnli", "premise", "hypothesis", _NLI_LABELS),
    "MisMNLI": HubTask("mnli", "premise", "hypothesis", _NLI_LABELS),
    "QNLI": HubTask("qnli", "question", "sentence", _ENTAILMENT),
    "RTE": HubTask("rte", "sentence1", "sentence2", _ENTAILMENT),
    "WNLI": HubTask("wnli", "sentence1", "sentence2"),
    "AX": HubTask("ax", "premise", "hypothesis", _NLI_LABELS),
}

# A .tsv file of GLUE -> the Hub's files of the same rows, in the folder of the task.
HUB_FILES = {
    "train.tsv": "train-*.parquet",
    "dev.tsv": "validation-*.parquet",
    "dev_matched.tsv": "validation_matched-*.parquet",
    "dev_mismatched.tsv": "validation_mismatched-*.parquet",
    "test.tsv": "test-*.parquet",
    "test_matched.tsv": "test_matched-*.parquet",
    "test_mismatched.tsv": "test_mismatched-*.parquet",
    "diagnostic.tsv": "test-*.parquet",
}


def _read(path: str, header: tuple[str, ...] | None, labels: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a file, with the names of labels in place of their numbers."""
    names = {"-1": UNLABELED, **{str(number): name for number, name in enumerate(labels)}}
    for row in read_rows(path, header):
        if "label" not in row.values:
            yield row
            continue
        number = str(row.values["label"])
        if number not in names:
            raise InputError(
                f"{row.location}: label {number} must be a number from 0 to {len(labels) - 1}, or "
                "-1 for none"
            )
        yield row._replace(values={**row.values, "label": names[number]})
