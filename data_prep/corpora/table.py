"""Tables with a text in each row, as hubs of data sets publish them: Parquet, JSON lines, CSV, TSV.

A row is a document and its lines are the paragraphs. Parquet is read by row groups, which several
processes can share; the others as a stream, so that no table has to fit in memory.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import Counts, Document, ReaderOptions
from data_prep.corpora.streams import COMPRESSIONS, opened, split_ending

_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can spell but not UTF-8
_BLOCK_BYTES = 8 << 20  # of a CSV file, at once; no row may be longer
_ROWS_AT_ONCE = 1000
# A JSON row may leave out a column that is empty, but so many of them do not have it at all.
_ROWS_WITHOUT_COLUMN = 1000

# The text and the title, as they stand in the table; None for a row that cannot be parsed.
Row = tuple[Any, Any] | None


class Unit(NamedTuple):
    """A part of a table: one row group of a Parquet file, or a whole other file.

    Attributes:
        path: the file.
        row_group: which one of a Parquet file.
        first_row: how many rows of the file stand before this part.
        bytes: how much of the file it takes.
    """

    path: str
    row_group: int
    first_row: int
    bytes: int


class Kind(NamedTuple):
    """A kind of table, by the ending of its name.

    Attributes:
        units: the parts of a file.
        rows: yields the rows of a part.
        compressions: endings that may follow its own.
    """

    units: Callable[[str, ReaderOptions], Iterable[Unit]]
    rows: Callable[[Unit, ReaderOptions, Counts], Iterator[Row]]
    compressions: tuple[str, ...] = ("", *COMPRESSIONS)


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[Unit]:
    """Yields the parts of the tables.

    Args:
        patterns: files, globs, or folders, whose tables are read.
        options: `text_column` and `title_column` name the columns.

    Raises:
        InputError: a pattern matches nothing, the ending of a name is unknown, or a Parquet file
            is damaged or lacks a column.
    """
    paths: set[str] = set()
    for pattern in patterns:
        is_folder = os.path.isdir(pattern)
        paths.update(
            _files_in(pattern) if is_folder else files.expand_globs([pattern], "input_file")
        )
    for path in sorted(paths):
        yield from _kind(path).units(path, options)


def documents(unit: Unit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yields each row of a part of a table as one document.

    Args:
        unit: the part.
        options: `text_column` holds the texts, `title_column`, if there is one, their names.
        counts: characters are counted in it, rows that cannot be read, and those without text.

    Raises:
        InputError: the file is damaged, or lacks a column.
    """
    counts.input_bytes += unit.bytes
    source = os.path.basename(unit.path)
    rows = _kind(unit.path).rows(unit, options, counts)
    with _errors_named(unit.path):
        for number, row in enumerate(rows, start=unit.first_row + 1):
            text, title = row or (False, None)
            if not isinstance(text, str | None):
                counts.skipped += 1
                continue
            found = paragraphs(text or "")
            if not found:
                counts.left_out["rows without text"] += 1
                continue
            counts.characters += sum(map(len, found))
            name = one_line(str(title)) if title is not None else ""
            yield Document(name or f"{source}:{number}", source, found)


def paragraphs(text: str) -> list[str]:
    """The lines of a text that are not blank."""
    text = _SURROGATE.sub("\ufffd", text)
    return [line for line in map(str.strip, text.splitlines()) if line]


def one_line(name: str) -> str:
    """A name without line breaks and tabs, which would break the table of documents."""
    return " ".join(_SURROGATE.sub("\ufffd", name).split())


def _files_in(folder: str) -> list[str]:
    names = [name for name in os.listdir(folder) if name.endswith(tuple(_endings()))]
    if not names:
        raise InputError(f"--input_file: no table in the folder {folder}: {', '.join(_endings())}")
    return [os.path.join(folder, name) for name in names]


def _endings() -> list[str]:
    return [kind + compression for kind, row in KINDS.items() for compression in row.compressions]


def _kind(path: str) -> Kind:
    """The row of the table of kinds for a file."""
    ending, compression = split_ending(path)
    if ending not in KINDS or compression not in KINDS[ending].compressions:
        raise InputError(
            f"--input_file: {path} does not end as a table does: {', '.join(_endings())}"
        )
    return KINDS[ending]


def _missing_column(path: str, wanted: str, columns: Iterable[str], options) -> InputError:
    flag = "text_column" if wanted == options.text_column else "title_column"
    return InputError(
        f"--{flag}: {path} has no column {wanted!r}; it has {', '.join(columns) or 'none'}"
    )


def _wanted(options: ReaderOptions) -> list[str]:
    return [name for name in (options.text_column, options.title_column) if name]


@contextlib.contextmanager
def _errors_named(path: str) -> Iterator[None]:
    """What the parsers find wrong, as an `InputError` that names the file."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        if "straddling object" in reason:
            reason = f"a row is longer than {_BLOCK_BYTES:,} bytes, or a quotation mark never ends"
        raise InputError(f"{path}: damaged, or not what its name says: {reason}") from None


@contextlib.contextmanager
def _opened_parquet(path: str) -> Iterator[Any]:
    from pyarrow import parquet

    with _errors_named(path), opened(path) as file, parquet.ParquetFile(file) as table:
        yield table


def _parquet_units(path: str, options: ReaderOptions) -> Iterator[Unit]:
    from pyarrow import types

    with _opened_parquet(path) as table:
        schema = table.schema_arrow
        for name in _wanted(options):
            if name not in schema.names:
                raise _missing_column(path, name, schema.names, options)
        type = schema.field(options.text_column).type
        value_type = type.value_type if types.is_dictionary(type) else type
        if not (types.is_string(value_type) or types.is_large_string(value_type)):
            raise InputError(
                f"--text_column: column {options.text_column!r} of {path} holds {type}, not text"
            )
        row_groups = [table.metadata.row_group(number) for number in range(table.num_row_groups)]
    first_row = 0
    for number, row_group in enumerate(row_groups):
        columns = map(row_group.column, range(row_group.num_columns))
        yield Unit(path, number, first_row, sum(column.total_compressed_size for column in columns))
        first_row += row_group.num_rows


def _parquet_rows(unit: Unit, options: ReaderOptions, counts: Counts) -> Iterator[Row]:
    with _opened_parquet(unit.path) as table:
        batches = table.iter_batches(
            _ROWS_AT_ONCE, [unit.row_group], columns=_wanted(options), use_threads=False
        )
        for batch in batches:
            yield from _rows_of(batch, options)


def _rows_of(batch, options: ReaderOptions) -> Iterator[Row]:
    """The rows of an Arrow record batch."""
    texts = batch[options.text_column].to_pylist()
    titles = (
        batch[options.title_column].to_pylist() if options.title_column else [None] * len(texts)
    )
    return zip(texts, titles, strict=True)


def _json_rows(unit: Unit, options: ReaderOptions, counts: Counts) -> Iterator[Row]:
    """Lines that are no JSON object give None."""
    missing = _wanted(options)
    columns: dict[str, None] = {}
    good = bad = 0
    with opened(unit.path) as file:
        for line in file:
            if not line.strip():
                continue
            row = _json_object(line)
            if row is None:
                bad += 1
                if not good and line.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                    break  # an array, some of whose lines may be objects
                yield None
                continue
            good += 1
            if missing:
                columns.update(dict.fromkeys(row))
                missing = [name for name in missing if name not in row]
                if missing and good >= _ROWS_WITHOUT_COLUMN:
                    break
            yield row.get(options.text_column), row.get(options.title_column)
    if bad and not good:
        raise InputError(
            f"{unit.path}: no line of it is a JSON object; a table has a row a line "
            "(an array is made into one by: jq -c '.[]')"
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
    unit: Unit, options: ReaderOptions, counts: Counts, delimiter: str, quoted: bool
) -> Iterator[Row]:
    """Rows with too many or too few cells are counted and left out."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    with opened(unit.path) as file:
        header = io.TextIOWrapper(file, "utf-8-sig", newline="")
        quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        columns = next(csv.reader(header, delimiter=delimiter, quoting=quoting), [])
    for name in _wanted(options):
        if name not in columns:
            raise _missing_column(unit.path, name, columns, options)

    def skip(row) -> str:
        counts.skipped += 1
        return "skip"

    with opened(unit.path) as file:
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
                include_columns=_wanted(options),
                column_types=dict.fromkeys(_wanted(options), pyarrow.string()),
            ),
        )
        for batch in batches:
            yield from _rows_of(batch, options)


def _whole_file(path: str, options: ReaderOptions) -> Iterable[Unit]:
    return [Unit(path, 0, 0, files.size(path))]


KINDS: dict[str, Kind] = {
    ".parquet": Kind(_parquet_units, _parquet_rows, compressions=("",)),
    ".jsonl": Kind(_whole_file, _json_rows),
    ".json": Kind(_whole_file, _json_rows),
    ".csv": Kind(_whole_file, functools.partial(_csv_rows, delimiter=",", quoted=True)),
    # Quotes have no meaning in tab-separated values: many tables have single ones.
    ".tsv": Kind(_whole_file, functools.partial(_csv_rows, delimiter="\t", quoted=False)),
}
