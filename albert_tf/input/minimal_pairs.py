"""Reads minimal pairs: files of sentences of which one is good, and one differs and is not."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import expand_globs, read_rows, tsv_rows

# Names of columns, as in BLiMP (arXiv 1912.00582); of phenomena, the first that a file has.
_GOOD, _BAD = "sentence_good", "sentence_bad"
_PHENOMENA = ("phenomenon", "linguistics_term", "UID", "field")

_UNNAMED = (_GOOD, _BAD, "phenomenon")


class Pair(NamedTuple):
    """A good and a bad sentence, what they differ in ("" if unknown), and "file:line"."""

    good: str
    bad: str
    phenomenon: str
    location: str


def read_pairs(paths: Sequence[str], argument: str, column: str | None = None) -> list[Pair]:
    """Read the pairs of some files.

    Args:
        paths: files or globs: `.tsv` with a good sentence, a bad one and maybe a phenomenon in
            each line; or `.jsonl`, or a table whose first line names its columns, with
            `sentence_good` and `sentence_bad` as in BLiMP.
        argument: what errors call the paths.
        column: name of the column of the phenomena; None for the first of `phenomenon`,
            `linguistics_term`, `UID` and `field` that a file has, if any.

    Raises:
        InputError: If a file is missing or invalid, or contains no pair.
    """
    pairs: list[Pair] = []
    for path in expand_globs(paths, argument):
        before = len(pairs)
        for row in read_rows(path, _columns(path)):
            good, bad = row.text(_GOOD), row.text(_BAD)
            if good == bad:
                raise InputError(f"{row.location}: the good and the bad sentence are the same")
            found = column or next((name for name in _PHENOMENA if name in row.values), None)
            phenomenon = row.text(found, may_be_empty=True) if found else ""
            # In names of results, as of other metrics.
            phenomenon = re.sub(r"\W+", "_", phenomenon).strip("_")
            pairs.append(Pair(good, bad, phenomenon, row.location))
        if len(pairs) == before:
            raise InputError(f"{path}: contains no pair of sentences")
    return pairs


def _columns(path: str) -> tuple[str, ...] | None:
    """Return names of the columns of a TSV file whose first line does not name them."""
    if not path.lower().endswith(".tsv"):
        return None
    number, fields = next(tsv_rows(path), (1, []))
    if _GOOD in fields:
        return None
    if len(fields) not in (2, 3):
        has = f"has {len(fields)} columns" if len(fields) > 3 else "has one column"
        raise InputError(
            f"{path}:{number}: {has if fields else 'empty'}; each line must have a good sentence, "
            "a bad one and, optionally, a phenomenon, separated by tabs"
        )
    return _UNNAMED[: len(fields)]
