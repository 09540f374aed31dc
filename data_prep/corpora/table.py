"""Tables with a text in each row, as published by dataset hubs: Parquet, JSON lines, CSV, TSV.

A row is a document and its lines are the paragraphs; where a row is only a sentence, a number of
rows can be taken as a document. Parquet is read by row groups, which several processes can share;
other tables are read as streams, so none has to fit into memory.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.text_units import stripped

_MAX_LINE_BYTES = 64 << 20  # of JSON
_BLOCK_BYTES = 8 << 20  # of a CSV file read at once; no row may be longer
_ROWS_AT_ONCE = 1000
# JSON rows may omit an empty column; if so many rows do, the column does not exist.
_MAX_ROWS_WITHOUT_COLUMN = 1000

# Text and title as found in the table; None for a row that cannot be parsed.
Row = tuple[Any, Any] | None


class TableUnit(NamedTuple):
    """A part of a table: one row group of a Parquet file, or a whole other file.

    Attributes:
        path: the file.
        row_group: index of the row group of a Parquet file.
        first_row: number of rows before this part.
        bytes: size of this part in the file.
    """

    path: str
    row_group: int
    first_row: int
    bytes: int


class TableType(NamedTuple):
    """A type of table, identified by the ending of a file.

    Attributes:
        units: `units(path, options)` returns the parts of a file.
        rows: `rows(unit, options, counts)` yields the rows of a part.
        compressions: endings that may follow that of the type.
    """

    units: Callable[[str, ReaderOptions], Iterable[TableUnit]]
    rows: Callable[[TableUnit, ReaderOptions, Counts], Iterator[Row]]
    compressions: tuple[str, ...] = ("", *files.COMPRESSED_ENDINGS)


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[TableUnit]:
    """Yield the parts of the tables.

    Args:
        patterns: files, globs, or folders, whose tables are read.
        options: `text_column` and `title_column` name the columns.

    Raises:
        InputError: If a pattern matches nothing, an ending is unknown, or a Parquet file is damaged
            or lacks a column.
    """
    for path in find_files(patterns, ENDINGS, f"table ({', '.join(ENDINGS)})"):
        yield from _table_type(path).units(path, options)


def documents(unit: TableUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield each row of a part of a table as one document, or several rows.

    Args:
        unit: the part.
        options: `text_column` and `title_column` name the columns of texts and of their names;
            with `document_sentences`, a document is so many rows, named by the first one.
        counts: updated with what is read, and with rows that are invalid or have no text.

    Raises:
        InputError: If the file is damaged, or lacks a column.
    """
    counts.input_bytes += unit.bytes
    source = options.file_name(unit.path)
    rows = _table_type(unit.path).rows(unit, options, counts)
    name, key, joined = "", "", 0
    collected: list[str] = []
    with _parser_errors(unit.path):
        for number, row in enumerate(rows, start=unit.first_row + 1):
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
    """Return the type of a table."""
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
    """Return the columns to read."""
    return [name for name in (options.text_column, options.title_column) if name]


@contextlib.contextmanager
def _parser_errors(path: str) -> Iterator[None]:
    """Turn errors of the parsers into an `InputError` that names the file."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        if files.is_remote(path) and type(error) is OSError:
            raise  # not the fault of the file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "straddling object" in reason:
            reason = f"a row is longer than {_BLOCK_BYTES:,} bytes, or a quotation mark is unclosed"
        raise InputError(f"{path}: damaged, or not the type its ending says: {reason}") from None


def _parquet_units(path: str, options: ReaderOptions) -> Iterator[TableUnit]:
    from pyarrow import types

    with files.open_parquet(path) as table:
        schema = table.schema_arrow
        for name in _columns(options):
            if name not in schema.names:
                raise _missing_column(path, name, schema.names, options)
        type = schema.field(options.text_column).type
        value_type = type.value_type if types.is_dictionary(type) else type
        if not (types.is_string(value_type) or types.is_large_string(value_type)):
            raise InputError(
                f"`text_column`={options.text_column}: must contain text; in {path}, the type is "
                f"{type}"
            )
        numbers = range(table.num_row_groups)
        rows = [table.metadata.row_group(number).num_rows for number in numbers]
    # The metadata of columns have exact sizes, but asking a damaged file for them ends the process.
    size, first_row = files.size(path), 0
    for number, count in enumerate(rows):
        yield TableUnit(path, number, first_row, size * count // max(sum(rows), 1))
        first_row += count


def _parquet_rows(unit: TableUnit, options: ReaderOptions, counts: Counts) -> Iterator[Row]:
    with files.open_parquet(unit.path) as table:
        batches = table.iter_batches(
            _ROWS_AT_ONCE, [unit.row_group], columns=_columns(options), use_threads=False
        )
        for batch in batches:
            yield from _rows_of(batch, options)


def _rows_of(batch, options: ReaderOptions) -> Iterator[Row]:
    """Return the rows of an Arrow record batch."""
    texts = batch[options.text_column].to_pylist()
    titles = (
        batch[options.title_column].to_pylist() if options.title_column else [None] * len(texts)
    )
    return zip(texts, titles, strict=True)


def _json_rows(unit: TableUnit, options: ReaderOptions, counts: Counts) -> Iterator[Row]:
    """Yield the rows of JSON lines; None for a line that is not an object."""
    missing = _columns(options)
    columns: dict[str, None] = {}
    good = bad = 0
    with files.open_decompressed(unit.path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if not line.strip():
                continue
            if len(line) == _MAX_LINE_BYTES:
                raise InputError(f"{unit.path}: a line is longer than {_MAX_LINE_BYTES:,} bytes")
            row = _json_object(line)
            if row is None:
                bad += 1
                if not good and line.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                    break  # an array; some of its lines may be objects
                yield None
                continue
            good += 1
            if missing:
                columns.update(dict.fromkeys(row))
                missing = [name for name in missing if name not in row]
                if missing and good >= _MAX_ROWS_WITHOUT_COLUMN:
                    break
            title = row.get(options.title_column) if options.title_column else None
            yield row.get(options.text_column), title
    if bad and not good:
        raise InputError(
            f"{unit.path}: no line is a JSON object; a table has one object per line "
            "(jq -c '.[]' converts an array)"
        )
    if missing and good:
        raise _missing_column(unit.path, missing[0], columns, options)


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _csv_rows(
    unit: TableUnit, options: ReaderOptions, counts: Counts, delimiter: str, quoted: bool
) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file; count rows with a wrong number of cells."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    with files.open_decompressed(unit.path) as file:
        # Columns beyond it are not found.
        beginning = io.BytesIO(file.read(_BLOCK_BYTES))
        header = io.TextIOWrapper(beginning, "utf-8-sig", newline="", errors="replace")
        if quoted:
            reader = csv.reader(header, delimiter=delimiter)
        else:
            reader = csv.reader(header, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        columns = next(reader, [])
    for name in _columns(options):
        if name not in columns:
            raise _missing_column(unit.path, name, columns, options)

    def skip(row) -> str:
        counts.skipped += 1
        return "skip"

    with files.open_decompressed(unit.path) as file:
        batches = arrow_csv.open_csv(
            file,
            arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            arrow_csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                include_columns=_columns(options),
                column_types=dict.fromkeys(_columns(options), pyarrow.string()),
            ),
        )
        for batch in batches:
            yield from _rows_of(batch, options)


def _whole_file(path: str, options: ReaderOptions) -> Iterable[TableUnit]:
    return [TableUnit(path, 0, 0, files.size(path))]


TABLE_TYPES: dict[str, TableType] = {
    ".parquet": TableType(_parquet_units, _parquet_rows, compressions=("",)),
    ".jsonl": TableType(_whole_file, _json_rows),
    ".json": TableType(_whole_file, _json_rows),
    ".csv": TableType(_whole_file, functools.partial(_csv_rows, delimiter=",", quoted=True)),
    # Quotation marks have no special meaning in TSV: many tables contain unpaired ones.
    ".tsv": TableType(_whole_file, functools.partial(_csv_rows, delimiter="\t", quoted=False)),
}
ENDINGS = tuple(
    kind + compression for kind, row in TABLE_TYPES.items() for compression in row.compressions
)
