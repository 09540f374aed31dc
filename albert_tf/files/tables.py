"""Tables: rows of .tsv, .csv, .jsonl, .parquet and Excel files; the ending selects the format."""

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files.compression import check_utf8, located_lines, open_decompressed, read_lines
from albert_tf.files.json_files import parse_json
from albert_tf.files.reading import exists, open_file
from albert_tf.files.remote import is_remote

# Texts may be longer than the 131,072 characters that `csv` reads by default; but a quotation mark
# that is never closed must not have all of a file read into memory.
csv.field_size_limit(64 << 20)

# Of a column; otherwise, all of it that a row group has is loaded at once.
_BUFFER_BYTES = 1 << 20


class ValueText(str):
    """The text by which a value that is no text is known, such as a number.

    Attributes:
        value: the number or bool; None for null and NaN, whose text is empty.
    """

    value: Any

    def __new__(cls, text: str, value: bool | int | float | None = None) -> "ValueText":
        self = super().__new__(cls, text)
        self.value = value
        return self


def value_of(text: str) -> Any:
    """Return the value that a text stands for: itself, or that of a `ValueText`."""
    return getattr(text, "value", text)


def text_of(value: str | bool | int | float) -> str:
    """Return the text of a value, of which 1.0 is 1; the reverse of `value_of`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return ValueText(json.dumps(value), value)


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        location: "file:line", for errors.
        values: column name -> value: a text; of JSON and Parquet also a `ValueText`, a list of
            these, or an object as it is.
        problem: what is wrong, if the number of fields differs from the number of columns.
    """

    location: str
    values: dict[str, Any]
    problem: str = ""

    def value(self, column: str | None) -> Any:
        """Return the value of a column.

        Raises:
            InputError: If there is no such column.
        """
        if column not in self.values:
            raise InputError(
                f"{self.location}: no column {column!r}; the columns are "
                f"{', '.join(map(repr, self.values))}"
            )
        return self.values[column]

    def text(self, column: str | None, may_be_empty: bool = False) -> str:
        """Return the text in a column.

        Raises:
            InputError: If there is no such column, it is empty, or contains no text.
        """
        text = self.value(column)
        if not isinstance(text, str):
            kind = "a list" if isinstance(text, list) else "an object"
            raise InputError(f"{self.location}: column {column!r} contains {kind}, not a text")
        if not text.strip() and not may_be_empty:
            raise InputError(f"{self.location}: column {column!r} is empty")
        return text


# Path of a file, and the names of its columns (see `read_rows`) -> its rows.
RowReader = Callable[[str, tuple[str, ...] | None], Iterator[Row]]


def read_rows(
    path: str, columns: tuple[str, ...] | None = None, read: RowReader | None = None
) -> Iterator[Row]:
    """Yield the rows of a file; the number of fields must match the number of columns.

    Args:
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
    """Return the names of the columns of a table that has no rows; errors as of `read_rows`."""
    if path.lower().endswith(".parquet"):
        with open_parquet(path) as table:
            return table.schema_arrow.names
    return [name for row in read_rows(path, ()) for name in row.values.values()]


def read_tsv(path: str, columns: tuple[str, ...] | None = None) -> Iterator[Row]:
    """Read tab-separated values; quotes are ordinary characters, as in GLUE.

    Arguments as for `read_rows`; the caller checks `Row.problem`.
    """
    return _named(path, tsv_rows(path), columns)


def tsv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Stream a TSV file, as `csv_rows` does a CSV file; quotes are ordinary characters."""
    lines = enumerate(read_lines(path), start=1)
    return ((number, line.split("\t")) for number, line in lines if line)


def _read_csv(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    return _named(path, csv_rows(path), columns)


def csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Stream a CSV file, which may be compressed, quoted as in RFC 4180.

    Yields:
        The number of the line in which a row begins, and its fields, which may contain line ends;
        blank lines are left out.

    Raises:
        InputError: If the file is missing, damaged, not UTF-8, or quoted incorrectly.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    first = 1
    with open_decompressed(path) as file:
        reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), strict=True)
        try:
            for fields in reader:
                if fields:
                    yield first, fields
                first = reader.line_num + 1
        except csv.Error as error:
            problem = (
                f"the quotation mark that opens here is not closed correctly ({error}); quote "
                "whole fields, and double the quotation marks inside"
            )
            if "limit" in str(error):
                problem = (
                    f"a field is longer than {csv.field_size_limit():,} characters, or its "
                    "quotation mark is not closed"
                )
            raise InputError(f"{path}:{first}: {problem}") from None
        except UnicodeDecodeError:
            check_utf8(path)  # names the line
            raise


def _read_excel(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    from albert_tf.files.spreadsheets import sheet_rows  # which is a program, too

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
            problem = f"{len(fields)} fields instead of {len(names)} ({', '.join(names)})"
        yield Row(f"{path}:{number}", dict(zip(names, fields, strict=False)), problem)
    if names is None:
        raise InputError(f"{path}: empty; the first line must name the columns")


def _read_json(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    _check_header_asked(path, columns)
    any_row = False
    for location, line in located_lines(path):
        any_row = True
        try:
            values = parse_json(line, location, dict[str, Any])
        except InputError as error:
            reason = str(error).removeprefix(f"{location}: ")
            raise InputError(
                f"{location}: not a JSON object on a line of its own ({reason}); convert an array "
                "to lines with: jq -c '.[]'"
            ) from None
        yield _from_values(location, values)
    if not any_row:
        raise InputError(f"{path}: empty; it must contain one JSON object per line")


def _read_parquet(path: str, columns: tuple[str, ...] | None) -> Iterator[Row]:
    _check_header_asked(path, columns)
    for location, values in parquet_rows(path):
        yield _from_values(location, values)


@contextlib.contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Open a file as a `pyarrow.parquet.ParquetFile`.

    Raises:
        InputError: If the file is missing, not a Parquet file, or damaged, which may be found only
            when its rows are read.
        OSError: If a remote file cannot be read.
    """
    import pyarrow
    from pyarrow import parquet

    if not exists(path):
        raise InputError(f"{path}: no such file")
    try:
        with (
            open_file(path, "rb") as file,
            parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES) as table,
        ):
            yield table
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_remote(path) and type(error) is OSError:
            raise  # not the fault of the file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not a Parquet file, or damaged ({reason})") from None


def parquet_rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a file: "file:number", from 1, for errors, and column name -> value.

    Raises:
        InputError, OSError: As of `open_parquet`.
    """
    with open_parquet(path) as table:
        rows = (values for batch in table.iter_batches(1000) for values in batch.to_pylist())
        for number, values in enumerate(rows, start=1):
            yield f"{path}:{number}", values


def _check_header_asked(path: str, columns: tuple[str, ...] | None) -> None:
    if columns is not None:
        raise InputError(f"{path}: names its columns itself; `header` cannot be false")


def _from_values(location: str, values: dict[str, Any]) -> Row:
    return Row(location, {name: _as_text(location, name, v) for name, v in values.items()})


def _as_text(location: str, name: str, value: Any) -> str | list[str] | dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return [_scalar_text(location, name, item) for item in value]
    return _scalar_text(location, name, value)


def _scalar_text(location: str, name: str, value: Any) -> str:
    if value is None or value != value:  # NaN, which pandas writes for null
        return ValueText("")
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return ValueText(json.dumps(value), value)
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
