"""Reads examples from tables; the ending of the file name selects the format."""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import open_parquet, parquet_rows, parse_json, read_lines
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Example,
    Row,
    RowReader,
    RowSet,
    TableFile,
    normalized_label,
)
from albert_tf.tasks.classification.spreadsheets import sheet_rows

logger = logging.getLogger(__name__)

# Stands for a label that is not known, in files that write labels as numbers.
_UNLABELED = "-"

# Texts may be longer than the 131,072 characters that `csv` reads by default.
csv.field_size_limit(2**31 - 1)


def read_examples(dataset: ClassificationDataset, rows: RowSet, labeled: bool) -> list[Example]:
    """Return the examples of a set.

    Args:
        dataset: that the set belongs to.
        rows: the set.
        labeled: whether every row must have a label.

    Raises:
        InputError: If a file or a column is missing, a field is empty, or there is no row.
    """
    examples: list[Example] = []
    unlabeled = 0
    for file in rows.files:
        before = len(examples) + unlabeled
        for row in read_rows(file.path, file.header, file.read):
            example = _example(dataset, file, row, labeled, len(examples))
            if labeled and dataset.unlabeled is not None and example.label == dataset.unlabeled:
                unlabeled += 1
            else:
                examples.append(example)
        if len(examples) + unlabeled == before:
            raise InputError(f"{file.path}: no row after the header")
    if unlabeled:
        logger.info(
            "%s: skipped %s rows without an agreed label", rows.files[0].path, f"{unlabeled:,}"
        )
    if not examples:
        raise InputError(f"{rows.files[0].path}: no row has a label")
    return examples


def _example(
    dataset: ClassificationDataset, file: TableFile, row: Row, labeled: bool, number: int
) -> Example:
    columns = file.columns

    def text_of(column: str) -> str:
        text = _value(row, column)
        if not isinstance(text, str):
            raise InputError(f"{row.location}: column {column!r} contains a list, not a text")
        if not text.strip() and not dataset.benchmark:
            raise InputError(f"{row.location}: column {column!r} is empty")
        return text

    label: str | list[str] | None = file.label
    if labeled and label is None:
        label = _label(dataset, file, row)
    # Only some of GLUE's labeled tables have an id, and nothing needs it there.
    has_id = columns.id is not None and not (labeled and columns.id not in row.values)
    return Example(
        row.location,
        text_of(columns.text),
        text_of(columns.pair) if columns.pair else None,
        label,
        str(_value(row, columns.id) if has_id else number),
    )


def _label(dataset: ClassificationDataset, file: TableFile, row: Row) -> str | list[str]:
    column, names = file.columns.label, file.numbered_labels
    label = _value(row, column)
    if names:
        by_number = {"-1": _UNLABELED, **{str(number): name for number, name in enumerate(names)}}
        if str(label) not in by_number:
            raise InputError(
                f"{row.location}: label {label} must be a number from 0 to {len(names) - 1}, or "
                "-1 for none"
            )
        return by_number[str(label)]
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


def _value(row: Row, column: str | None) -> Any:
    if column not in row.values:
        raise InputError(
            f"{row.location}: no column {column!r}; the columns are "
            f"{', '.join(map(repr, row.values))}"
        )
    return row.values[column]


def read_rows(
    path: str, columns: tuple[str, ...] | None = None, read: RowReader | None = None
) -> Iterator[Row]:
    """Yield the rows of a file; the number of fields must match the number of columns.

    Args:
        path: of the file.
        columns: names of the columns, if the first line is already a row; () to number them, from
            "1". None: the first line names them.
        read: returns the rows; None to choose by the ending of the file name.

    Raises:
        InputError: If the file is missing, damaged, of an unknown format, empty, not UTF-8, or has
            an invalid row.
    """
    ending = os.path.splitext(path)[1].lower()
    read = read or TABLE_FORMATS.get(ending)
    if read is None:
        raise InputError(f"{path}: a table must end in {', '.join(TABLE_FORMATS)}, not {ending!r}")
    for row in read(path, columns):
        if row.problem:
            raise InputError(f"{row.location}: {row.problem}")
        yield row


def column_names(path: str) -> list[str]:
    """Return the names of the columns of a table that has no rows.

    Raises:
        InputError: As of `read_rows`.
    """
    if path.lower().endswith(".parquet"):
        with open_parquet(path) as table:
            return table.schema_arrow.names
    return [name for row in read_rows(path, ()) for name in row.values.values()]


def read_tsv(path: str, columns: tuple[str, ...] | None = None) -> Iterator[Row]:
    """Read tab-separated values; quotes are ordinary characters, as in GLUE.

    Arguments as for `read_rows`; the caller checks `Row.problem`.
    """
    lines = enumerate(read_lines(path), start=1)
    return _named(path, ((number, line.split("\t")) for number, line in lines if line), columns)


def _read_csv(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    """Read comma-separated values, quoted as in RFC 4180 (fields may contain line breaks)."""
    return _named(path, _csv_rows(path), columns)


def _csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}:{first}: the quotation mark that opens here is not closed correctly "
                f"({error}); quote whole fields, and double the quotation marks inside"
            ) from None
        if fields is None:
            return
        if fields:
            yield first, fields


def _read_excel(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    rows = ((number, cells) for number, cells in sheet_rows(path) if any(cells))
    return _named(path, _cut_to_header(rows, columns), columns)


def _cut_to_header(rows, columns):
    """Drop empty cells beyond the header: a sheet is as wide as its widest row."""
    width = len(columns) if columns else None
    for number, cells in rows:
        while len(cells) > (width or 1) and not cells[-1]:
            cells = cells[:-1]
        width = width or len(cells)
        yield number, cells + [""] * (width - len(cells))


def _named(
    path: str, rows: Iterable[tuple[int, list[str]]], columns: tuple[str, ...] | None
) -> Iterator[Row]:
    """Turn rows of fields into dictionaries."""
    names = columns
    for number, fields in rows:
        if names is None:
            names = tuple(fields)
            repeated = next((name for name in names if name and names.count(name) > 1), None)
            if repeated is not None:
                raise InputError(f"{path}:{number}: two columns are named {repeated!r}")
            continue
        if names == ():
            names = tuple(str(column) for column in range(1, len(fields) + 1))
        problem = ""
        if len(fields) != len(names):
            problem = f"{len(fields)} fields, but the header has {len(names)} ({', '.join(names)})"
        yield Row(f"{path}:{number}", dict(zip(names, fields, strict=False)), problem)
    if names is None:
        raise InputError(f"{path}: empty; the first line must name the columns")


def _read_json(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    """Yield one JSON object per line."""
    _check_header_asked(path, columns)
    any_row = False
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        any_row = True
        try:
            values = parse_json(line, f"{path}:{number}", dict[str, Any])
        except InputError as error:
            reason = str(error).removeprefix(f"{path}:{number}: ")
            raise InputError(
                f"{path}:{number}: not a JSON object on a line of its own ({reason}); convert an "
                "array to lines with: jq -c '.[]'"
            ) from None
        yield _from_values(f"{path}:{number}", values)
    if not any_row:
        raise InputError(f"{path}: empty; it must contain one JSON object per line")


def _read_parquet(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    _check_header_asked(path, columns)
    for location, values in parquet_rows(path):
        yield _from_values(location, values)


def _check_header_asked(path: str, columns: tuple[str, ...] | None) -> None:
    if columns is not None:
        raise InputError(f"{path}: names its columns itself; `header` cannot be false")


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
    raise InputError(
        f"{location}: column {name!r} contains {_shown(value)}, not a text or a number"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


TABLE_FORMATS: dict[str, RowReader] = {
    ".tsv": read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
    ".xls": _read_excel,
}
