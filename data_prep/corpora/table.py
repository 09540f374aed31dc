"""Tables with a text in each row, as published by dataset hubs: Parquet, JSON lines, CSV, TSV.

A row is a document and its lines are the paragraphs; where a row is only a sentence, a number of
rows can be taken as a document. Tables are read as streams, which this process cuts into units of
some megabytes, so none has to fit into memory and all processes share a large one.
"""

import codecs
import collections
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.text_units import TEXT_PER_COMPRESSED, stripped

_UNIT_CHARACTERS = 2 << 20
_MAX_LINE_BYTES = 64 << 20  # of JSON
_MAX_ROWS = 10_000  # of Parquet at once
# JSON rows may omit an empty column; if so many rows do, the column does not exist.
_MAX_ROWS_WITHOUT_COLUMN = 1000

# Text and title as found in the table, or a line of JSON; None for a row that cannot be parsed.
Row = tuple[Any, Any] | bytes | None
_GROUP_END = b""  # instead of a row: a document does not continue in the next row group


class TableUnit(NamedTuple):
    """A part of a table.

    Attributes:
        first_row: number of rows before this part.
        bytes: size of this part in the file, an estimate.
    """

    path: str
    first_row: int
    bytes: int
    rows: tuple[Row, ...]


class TableType(NamedTuple):
    """A type of table, identified by the ending of a file.

    Attributes:
        rows: `rows(path, options)` yields the rows of a file.
        compressions: endings that may follow that of the type.
        checked_rows: how many rows tell whether the file can be read; None: all.
    """

    rows: Callable[[str, ReaderOptions], Iterator[Row]]
    compressions: tuple[str, ...] = ("", *files.COMPRESSED_ENDINGS)
    checked_rows: int | None = None


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[TableUnit]:
    """Yield the parts of the tables."""
    paths = find_files(patterns, ENDINGS, f"table ({', '.join(ENDINGS)})")

    def check(path: str) -> None:
        type = _table_type(path)
        limit = None if files.split_compression(path)[1] else type.checked_rows
        collections.deque(itertools.islice(type.rows(path, options), limit), maxlen=0)

    for path in options.readable(paths, check):
        yield from _units_of(path, options)


def _units_of(path: str, options: ReaderOptions) -> Iterator[TableUnit]:
    left = files.size(path)
    is_packed = files.split_compression(path)[1] or path.endswith(".parquet")
    rows: list[Row] = []
    characters = first = 0
    for row in _table_type(path).rows(path, options):
        if row != _GROUP_END:
            rows.append(row)
            characters += len((row if isinstance(row, bytes) else row and row[0]) or "")
        if characters >= _UNIT_CHARACTERS or row == _GROUP_END:
            size = min(characters // (TEXT_PER_COMPRESSED if is_packed else 1), left)
            yield TableUnit(path, first, size, tuple(rows))
            left, first, rows, characters = left - size, first + len(rows), [], 0
    yield TableUnit(path, first, left, tuple(rows))


def documents(unit: TableUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield each row of a part of a table as one document.

    With `document_sentences`, a document is so many rows, named by the first one.
    """
    counts.input_bytes += unit.bytes
    source = options.file_name(unit.path)
    name, key, joined = "", "", 0
    collected: list[str] = []
    for number, row in enumerate(unit.rows, start=unit.first_row + 1):
        if isinstance(row, bytes):
            values = _json_object(row)
            row = None
            if values is not None:
                row = values.get(options.text_column), values.get(options.title_column or "")
        text, title = row or (False, None)
        if not (text is None or isinstance(text, str)):
            counts.skipped += 1
            continue
        found = paragraphs(text or "")
        if not found:
            counts.left_out["rows without text"] += 1
            continue
        counts.characters += sum(map(len, found))
        if not collected:
            key = f"{source}:{number}"  # titles may repeat
            name = one_line(str(title)) if title is not None else ""
        collected += found
        joined += 1
        if joined >= options.document_sentences:
            yield Document(name or key, source, collected, key)
            collected, joined = [], 0
    if collected:
        yield Document(name or key, source, collected, key)


def paragraphs(text: str) -> list[str]:
    """Return the non-blank lines of a text."""
    return list(filter(None, map(stripped, text.splitlines())))


def one_line(name: str) -> str:
    """Return a name without line breaks and tabs, which the table of documents cannot contain."""
    return " ".join(name.split())


def _table_type(path: str) -> TableType:
    name, compression = files.split_compression(path)
    ending = os.path.splitext(name)[1]
    if ending not in TABLE_TYPES or compression not in TABLE_TYPES[ending].compressions:
        raise InputError(f"`input_file`={path}: the ending must be one of {', '.join(ENDINGS)}")
    return TABLE_TYPES[ending]


def _missing_column(
    path: str, column: str, columns: Iterable[str], options: ReaderOptions
) -> InputError:
    argument = "text_column" if column == options.text_column else "title_column"
    names = ", ".join(name if name.isprintable() else repr(name) for name in columns) or "none"
    return InputError(f"`{argument}`={column}: no such column in {path}; it has {names[:1000]}")


def _columns(options: ReaderOptions) -> list[str]:
    return [name for name in (options.text_column, options.title_column) if name]


def _parquet_rows(path: str, options: ReaderOptions) -> Iterator[Row]:
    from pyarrow import types

    with files.open_parquet(path) as table:
        schema = table.schema_arrow
        for name in _columns(options):
            if name not in schema.names:
                raise _missing_column(path, name, schema.names, options)
        type = schema.field(options.text_column).type
        value_type = type.value_type if types.is_dictionary(type) else type
        # A column without a text may have no type.
        if str(value_type) not in ("string", "large_string", "string_view", "null"):
            raise InputError(
                f"`text_column`={options.text_column}: must contain text; in {path}, the type is "
                f"{type}"
            )
        # The metadata of columns have exact sizes, but asking a damaged file for them ends the
        # process.
        characters = files.size(path) * TEXT_PER_COMPRESSED
        count = _UNIT_CHARACTERS * table.metadata.num_rows // max(characters, 1)
        size = min(max(count, 1), _MAX_ROWS)
        for group in range(table.num_row_groups):
            if group:
                yield _GROUP_END
            for batch in table.iter_batches(
                size, [group], columns=_columns(options), use_threads=False
            ):
                columns = [batch[name].to_pylist() for name in _columns(options)]
                yield from zip(
                    columns[0], columns[1] if columns[1:] else itertools.repeat(None), strict=False
                )


def _json_rows(path: str, options: ReaderOptions) -> Iterator[Row]:
    missing = _columns(options)
    columns: dict[str, None] = {}
    good = bad = 0
    with files.open_lines(path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if not line.strip():
                continue
            if len(line) == _MAX_LINE_BYTES:
                raise InputError(f"{path}: a line is longer than {_MAX_LINE_BYTES:,} bytes")
            if missing:
                row = _json_object(line)
                if row is None:
                    bad += 1
                    if not good and line.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                        break  # an array; some of its lines may be objects
                else:
                    good += 1
                    columns.update(dict.fromkeys(row))
                    missing = [name for name in missing if name not in row]
                    if missing and good >= _MAX_ROWS_WITHOUT_COLUMN:
                        break
            yield line
    if bad and not good:
        raise InputError(
            f"{path}: no line is a JSON object; a table has one object per line "
            "(jq -c '.[]' converts an array)"
        )
    if missing and good:
        raise _missing_column(path, missing[0], columns, options)


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _cell_rows(
    path: str, options: ReaderOptions, read: Callable[[str], Iterator[tuple[int, list[str]]]]
) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file; None for one with a wrong number of cells."""
    rows = read(path)
    _, columns = next(rows, (1, []))
    for name in _columns(options):
        if name not in columns:
            raise _missing_column(path, name, columns, options)
    chosen = [columns.index(name) for name in _columns(options)]
    for _, row in rows:
        if len(row) != len(columns):
            yield None
        else:
            yield row[chosen[0]], row[chosen[1]] if chosen[1:] else None


TABLE_TYPES: dict[str, TableType] = {
    ".parquet": TableType(_parquet_rows, ("",), 1),
    ".jsonl": TableType(_json_rows, checked_rows=_MAX_ROWS_WITHOUT_COLUMN),
    ".json": TableType(_json_rows, checked_rows=_MAX_ROWS_WITHOUT_COLUMN),
    ".csv": TableType(functools.partial(_cell_rows, read=files.csv_rows)),
    ".tsv": TableType(functools.partial(_cell_rows, read=files.tsv_rows)),
}
ENDINGS = tuple(
    kind + compression for kind, row in TABLE_TYPES.items() for compression in row.compressions
)
