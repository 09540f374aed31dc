"""Reads examples from tables."""

import logging
import math
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import Row, parse_json, read_rows, value_of
from albert_tf.logs import counted
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Example,
    RowSet,
    TableFile,
    label_probabilities,
    normalized_label,
)

logger = logging.getLogger(__name__)

# Stands for a label that is not known, in files that write labels as numbers.
_UNLABELED = "-"


def read_examples(
    dataset: ClassificationDataset, rows: RowSet, labeled: bool, may_lack_label: bool = False
) -> list[Example]:
    """Return the examples of a set, with labels if it is `labeled`; some may lack theirs.

    Raises:
        InputError: If a file or a column is missing, a field is empty, or there is no row.
    """
    examples: list[Example] = []
    unlabeled = 0
    for file in rows.files:
        before = len(examples) + unlabeled
        for row in read_rows(file.path, file.header, file.read):
            example = _example(dataset, file, row, labeled, may_lack_label, len(examples))
            if labeled and dataset.unlabeled is not None and example.label == dataset.unlabeled:
                unlabeled += 1
            else:
                examples.append(example)
        if len(examples) + unlabeled == before:
            raise InputError(f"{file.path}: no row after the header")
    if unlabeled:
        logger.info(
            "%s: skipped %s without an agreed label", rows.files[0].path, counted(unlabeled, "row")
        )
    if not examples:
        raise InputError(f"{rows.files[0].path}: no row has a label")
    return examples


def _example(
    dataset: ClassificationDataset,
    file: TableFile,
    row: Row,
    labeled: bool,
    may_lack_label: bool,
    number: int,
) -> Example:
    columns, may_be_empty = file.columns, dataset.benchmark is not None
    label: Any = file.label
    if labeled and label is None:
        label = _label(dataset, file, row, may_lack_label)
    # Only some of GLUE's labeled tables have an id, and nothing needs it there.
    has_id = columns.id is not None and not (labeled and columns.id not in row.values)
    return Example(
        row.location,
        row.text(columns.text, may_be_empty),
        row.text(columns.pair, may_be_empty) if columns.pair else None,
        label,
        str(row.value(columns.id) if has_id else number),
    )


def _label(dataset: ClassificationDataset, file: TableFile, row: Row, may_lack_label: bool) -> Any:
    column, names = file.columns.label, file.numbered_labels
    if may_lack_label and not str(row.values.get(str(column), "")).strip():
        return None
    label = row.value(column)
    if names:
        by_number = {"-1": _UNLABELED, **{str(number): name for number, name in enumerate(names)}}
        if str(label) not in by_number:
            raise InputError(
                f"{row.location}: label {label} must be a number from 0 to {len(names) - 1}, or "
                "-1 for none"
            )
        return by_number[str(label)]
    for each in label if isinstance(label, list) else [label]:
        value = value_of(each)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise InputError(
                f"{row.location}: column {column!r} contains {each or 'null or NaN'}, no label"
            )
    if dataset.target == "classification" and isinstance(label, str) and label.startswith('{"'):
        label = parse_json(label, f"{row.location}: column {column!r}", dict[str, Any])
    if isinstance(label, dict):
        if dataset.target != "classification":
            raise InputError(
                f"{row.location}: column {column!r} contains an object; only a single label per "
                "row may be given as probabilities"
            )
        return label_probabilities(row.location, label)
    if dataset.target == "multi_label":
        return label
    if isinstance(label, list):
        raise InputError(
            f"{row.location}: column {column!r} contains a list; for several labels per row set "
            "`multi_label`"
        )
    if not label.strip():
        raise InputError(f"{row.location}: column {column!r} is empty")
    return normalized_label(label)
