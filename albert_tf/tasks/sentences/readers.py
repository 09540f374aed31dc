"""Reads pairs of texts: the user's tables, and STS-B."""

import math
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import Row, read_rows
from albert_tf.hub.huggingface import PREFIX, PublishedSet
from albert_tf.tasks.sentences.options import SentenceOptions

# As published, and as on the Hub.
_STS_B = PublishedSet(
    {
        "train": ("train.tsv", "train-*.parquet"),
        "eval": ("dev.tsv", "validation-*.parquet"),
        "predict": ("test.tsv", "test-*.parquet"),
    },
    f"{PREFIX}nyu-mll/glue",
    ("STS-B", "stsb"),
)


class TextPair(NamedTuple):
    """Two texts.

    Attributes:
        location: "file:line", for errors.
        text: the first one.
        text_pair: the second one, which belongs to it unless there is a score.
        negative: one that does not belong to the first; None if there is none.
        score: how similar the two are; None if unknown.
    """

    location: str
    text: str
    text_pair: str
    negative: str | None = None
    score: float | None = None


def read_pairs(options: SentenceOptions, split: str) -> list[TextPair]:
    """Return the pairs of a split.

    Raises:
        InputError: If a file or a column is missing, a text is empty, a score is no number, or
            there is no row.
    """
    options.check_files()
    paths = [getattr(options, options.files[split])]
    columns, score = (options.text_column, options.text_pair_column), options.score_column
    negative = options.negative_column if split == "train" else None
    if options.is_sts_b:
        paths, columns = _STS_B.find(split, options.data_dir), ("sentence1", "sentence2")
        score = "label" if paths[0].endswith(".parquet") else "score"
    pairs = [
        TextPair(
            row.location,
            row.text(columns[0], may_be_empty=options.is_sts_b),
            row.text(columns[1], may_be_empty=options.is_sts_b),
            row.text(negative) if negative else None,
            _number(row, score) if score and split != "predict" else None,
        )
        for path in paths
        for row in read_rows(path)
    ]
    if not pairs:
        raise InputError(f"{paths[0]}: no row after the header")
    return pairs


def _number(row: Row, column: str) -> float:
    try:
        value = float(row.value(column))
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{row.location}: column {column!r} contains {row.value(column)!r}, not a number"
        )
    return value
