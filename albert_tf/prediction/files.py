"""The files that albert-predict writes: JSON lines, tab-separated values and Parquet."""

import abc
import contextlib
import os
import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import open_file, replacing, to_json
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.finetuning.streaming import result_output

Rows = list[dict[str, Any]]


class RowWriter(abc.ABC):
    """Writes rows to a file, some at a time.

    A row may have nothing but an `error`. It waits for one that has columns.
    """

    mode = "w"  # of the file
    has_columns = True  # the same in all rows; otherwise, each has its own
    columns: list[str] = []  # [] until they are known

    def __init__(self, file: IO):
        self._file, self._waiting = file, Rows()

    def write(self, rows: Rows) -> None:
        self.write_columns([row for row in rows if list(row) != ["error"]])
        self._waiting += rows
        if (self.columns or not self.has_columns) and self._waiting:
            self._write(self._waiting)
            self._waiting = []

    def write_columns(self, rows: Rows) -> None:
        """Write the columns that rows have, once; `write` does so before it writes rows."""
        if self.has_columns and not self.columns and rows:
            self.columns = list(rows[0])
            self._begin(rows)

    @abc.abstractmethod
    def _write(self, rows: Rows) -> None: ...

    def _begin(self, rows: Rows) -> None:  # noqa: B027
        """Write the columns that rows have."""

    def close(self) -> None:
        """Complete the file, which the caller closes."""
        self.write([])


class JsonLinesWriter(RowWriter):
    """A JSON object per row."""

    has_columns = False

    def _write(self, rows):
        for row in rows:
            self._file.write(to_json(_plain(row), ensure_ascii=False) + "\n")
        self._file.flush()


class TsvWriter(RowWriter):
    """A header, and the values of a row, separated by tabs.

    Texts keep no tabs and line ends, which become spaces. Lists and objects are JSON.
    """

    def _write(self, rows):
        for row in rows:
            self._file.write("\t".join(_cell(row.get(name, "")) for name in self.columns) + "\n")
        self._file.flush()

    def _begin(self, rows):
        self._file.write("\t".join(map(_cell, self.columns)) + "\n")


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else to_json(_plain(value), ensure_ascii=False)
    return re.sub(r"[\t\r\n]", " ", text)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; vectors with eight significant digits."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [float(f"{number:.8g}") for number in value]
    return value


class ParquetWriter(RowWriter):
    """Parquet, with a row group per call; a vector is a `fixed_size_list<float>`."""

    mode = "wb"
    _writer: Any = None
    _schema: Any = None

    def _write(self, rows):
        self._writer.write_table(self._table(rows))

    def _begin(self, rows):
        from pyarrow import parquet

        self._schema = self._table(rows).schema
        self._writer = parquet.ParquetWriter(self._file, self._schema)

    def _table(self, rows):
        import pyarrow as pa

        columns = {name: [row.get(name) for row in rows] for name in self.columns}
        return pa.table(
            {name: _array(name, values, self._schema) for name, values in columns.items()}
        )

    def close(self):
        super().close()
        if self._writer is not None:
            self._writer.close()


def _array(name: str, values: list, schema: Any) -> Any:
    """Return a column; the types of its first values decide its type."""
    import pyarrow as pa

    type_: Any = schema.field(name).type if schema else None
    if isinstance(values[0], np.ndarray) or schema and pa.types.is_fixed_size_list(type_):
        size = type_.list_size if schema else len(values[0])
        none = np.full(size, np.nan)  # pyarrow cannot read null in place of a vector
        vectors = [none if value is None else value for value in values]
        flat = pa.array(np.concatenate(vectors).astype(np.float32))
        return pa.FixedSizeListArray.from_arrays(flat, size)
    try:
        return pa.array(values, type_ or _type_of(name, values))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"`output_file`: column {name!r} has values of different types ({error}); write .jsonl "
            "instead"
        ) from None


def _type_of(name: str, values: list) -> Any:
    """Return the type of a column, also if it has empty lists only so far."""
    import pyarrow as pa

    if name == "entities":
        places = [("label", pa.string()), ("start", pa.int64()), ("end", pa.int64())]
        return pa.list_(pa.struct([*places, ("text", pa.string()), ("score", pa.float64())]))
    found = pa.array(values).type
    return pa.list_(pa.string()) if found == pa.list_(pa.null()) else found


WRITERS: dict[str, type[RowWriter]] = {
    ".jsonl": JsonLinesWriter,
    ".tsv": TsvWriter,
    ".parquet": ParquetWriter,
}


def check_output(path: str) -> None:
    """Raise InputError if the ending of a file names no format."""
    if path != STANDARD_STREAM and _ending(path) not in WRITERS:
        raise InputError(f"`output_file`={path}: must end in {', '.join(WRITERS)}, or be -")


@contextlib.contextmanager
def row_writer(path: str) -> Iterator[RowWriter]:
    """Where rows go: a file, which appears once complete, or standard output."""
    if path == STANDARD_STREAM:
        with result_output(path) as file:
            yield JsonLinesWriter(file)
        return
    kind = WRITERS[_ending(path)]
    with (
        replacing(path) as partial,
        open_file(partial, kind.mode) as file,
        contextlib.closing(kind(file)) as writer,
    ):
        yield writer


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
