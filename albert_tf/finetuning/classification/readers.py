"""Rows of tables as dictionaries, by the ending of the file name."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, open_file, read_lines
from albert_tf.finetuning.classification.spreadsheets import sheet_rows


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        location: "file:line", named in errors.
        values: column name -> what stands there: a text, or a list of texts (JSON and Parquet).
        problem: what is wrong with it, if it has another number of fields than there are columns.
    """

    location: str
    values: dict[str, Any]
    problem: str = ""


def read_rows(path: str, columns: tuple[str, ...] | None = None) -> Iterator[Row]:
    """The rows of a file; those with another number of fields than there are columns are errors.

    Args:
        path: of the file; its ending says what it is.
        columns: names of the columns, of a file whose first line is a row already; () to number
            them, from "1". None: the first line names them.

    Raises:
        InputError: the file is missing, damaged, of an unknown kind, empty, not UTF-8, or a row is
            not what it should be.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in READERS:
        raise InputError(f"{path}: a table ends in {', '.join(READERS)}, not {ending!r}")
    for row in READERS[ending](path, columns):
        if row.problem:
            raise InputError(f"{row.location}: {row.problem}")
        yield row


def read_tsv(path: str, columns: tuple[str, ...] | None = None) -> Iterator[Row]:
    """Tab-separated values; quotes are ordinary characters, as in GLUE.

    Arguments as of `read_rows`; rows with another number of fields are for the caller to refuse.
    """
    lines = enumerate(read_lines(path), start=1)
    return _named(path, ((number, line.split("\t")) for number, line in lines if line), columns)


def _read_csv(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    """Comma-separated values, quoted as in RFC 4180: a field may hold commas and line ends."""
    return _named(path, _csv_rows(path), columns)


def _csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}:{first}: a quotation mark that opens here does not close as it should "
                f"({error}); quote a field whole, and write a quotation mark in it twice"
            ) from None
        if fields is None:
            return
        if fields:
            yield first, fields


def _read_excel(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    rows = ((number, cells) for number, cells in sheet_rows(path) if any(cells))
    return _named(path, _cut_to_header(rows, columns), columns)


def _cut_to_header(rows, columns):
    """A sheet is as wide as its widest row: cells that no row needs are no fields."""
    width = len(columns) if columns else None
    for number, cells in rows:
        while len(cells) > (width or 1) and not cells[-1]:
            cells = cells[:-1]
        width = width or len(cells)
        yield number, cells + [""] * (width - len(cells))


def _named(
    path: str, rows: Iterable[tuple[int, list[str]]], columns: tuple[str, ...] | None
) -> Iterator[Row]:
    """Rows of fields in their order, as dictionaries."""
    names = columns
    for number, fields in rows:
        if names is None:
            names = tuple(fields)
            twice = next((name for name in names if name and names.count(name) > 1), None)
            if twice is not None:
                raise InputError(f"{path}:{number}: two columns are called {twice!r}")
            continue
        if names == ():
            names = tuple(str(column) for column in range(1, len(fields) + 1))
        problem = ""
        if len(fields) != len(names):
            problem = f"{len(fields)} fields, the header has {len(names)} ({', '.join(names)})"
        yield Row(f"{path}:{number}", dict(zip(names, fields, strict=False)), problem)
    if names is None:
        raise InputError(f"{path}: empty; the first line must name the columns")


def _read_json(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    """A JSON object a line."""
    _check_header_asked(path, columns)
    any_row = False
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        any_row = True
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}:{number}: not a JSON object on a line of its own ({error}); an array is "
                "made into lines by: jq -c '.[]'"
            ) from None
        if not isinstance(values, dict):
            raise InputError(
                f"{path}:{number}: holds {_shown(values)}, not an object such as "
                '{"text": "...", "label": "..."}'
            )
        yield _from_values(f"{path}:{number}", values)
    if not any_row:
        raise InputError(f"{path}: empty; it must hold a JSON object a line")


def _read_parquet(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    _check_header_asked(path, columns)
    if not exists(path):
        raise InputError(f"{path}: no such file")
    try:
        with open_file(path, "rb") as file, parquet.ParquetFile(file) as table:
            number = 0
            for batch in table.iter_batches(1000):
                for values in batch.to_pylist():
                    number += 1
                    yield _from_values(f"{path}:{number}", values)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None


def _check_header_asked(path: str, columns: tuple[str, ...] | None) -> None:
    if columns is not None:
        raise InputError(f"{path}: has names of its own for its columns; it cannot go without them")


def _from_values(location: str, values: dict[str, Any]) -> Row:
    return Row(location, {name: _as_text(location, name, v) for name, v in values.items()})


def _as_text(location: str, name: str, value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [_scalar_text(location, name, item) for item in value]
    return _scalar_text(location, name, value)


def _scalar_text(location: str, name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise InputError(f"{location}: column {name!r} holds {_shown(value)}, not a text or a number")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


READERS: dict[str, Callable[[str, tuple[str, ...] | None], Iterator[Row]]] = {
    ".tsv": read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
    ".xls": _read_excel,
}
