"""Rows of text files as dictionaries, by the ending of the file name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import read_lines


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        location: "file:line", named in errors.
        values: column name -> text.
    """

    location: str
    values: dict[str, str]


def read_rows(path: str) -> Iterator[Row]:
    """The rows of a file with a header.

    Raises:
        InputError: the file is missing, of an unknown kind, empty, not UTF-8, or a row has another
            number of fields than the header.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in READERS:
        raise InputError(f"{path}: a table ends in {', '.join(READERS)}, not {ending!r}")
    return READERS[ending](path)


def _read_tsv(path: str) -> Iterator[Row]:
    """Tab-separated values; quotes are ordinary characters, as in GLUE."""
    lines = read_lines(path)
    columns = next(lines, "").split("\t")
    if columns == [""]:
        raise InputError(f"{path}: empty; the first line must name the columns")
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) != len(columns):
            raise InputError(
                f"{path}:{number}: {len(fields)} fields, the header has {len(columns)} "
                f"({', '.join(columns)})"
            )
        yield Row(f"{path}:{number}", dict(zip(columns, fields, strict=True)))


READERS: dict[str, Callable[[str], Iterator[Row]]] = {".tsv": _read_tsv}
