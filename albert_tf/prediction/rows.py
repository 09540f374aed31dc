"""The rows that albert-predict reads and writes: tables, lines, JSON lines, Parquet."""

import abc
import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.finetuning.streaming import available_batches, result_output
from albert_tf.prediction.tasks import Columns, PredictionTask, PredictOptions, Results

# Batches in a chunk, which is sorted by length, predicted and written at a time.
_BATCHES = 32
_TEXT_FILE = ".txt"

_TYPES = {str: "a text", int: "a whole number", list: "a list of texts"}

# Values of a row that every model reads.
_EXAMPLES: dict[type, Any] = {str: "a [MASK]", int: 0, list: ["a", "b"]}

# How text models name an argument, or an item of it; the value of a flag follows its name.
_ITEM = re.compile(r"`\w+`(?:\[(\d+)\])?(?=: )")


class InputRow(NamedTuple):
    """A row of the input.

    Attributes:
        location: "file:number", for errors.
        values: column -> text, or list of texts.
        error: why it cannot be predicted.
    """

    location: str
    values: dict[str, Any]
    error: str | None = None


def read_chunks(options: PredictOptions, task: PredictionTask) -> Iterator[list[InputRow]]:
    """Yield all rows of the input, some at a time; of standard input, as they arrive.

    An invalid row of standard input ends no stream, but has an error.

    Raises:
        InputError: If the input is missing, damaged, of an unknown format or not UTF-8.
    """
    if options.input_file == STANDARD_STREAM:
        with arguments_renamed(predict_file="input_file"):
            number = 1
            for lines in available_batches(sys.stdin, options.batch_size, "surrogateescape"):
                yield list(_from_lines(lines, "standard input, line ", number, task, options))
                number += len(lines)
        return
    rows = _all_rows(options, task)
    while chunk := list(itertools.islice(rows, options.batch_size * _BATCHES)):
        yield chunk


def _all_rows(options: PredictOptions, task: PredictionTask) -> Iterator[InputRow]:
    path = options.input_file
    if path is None:
        given = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options.given_inputs().items()
        }
        yield InputRow(" and ".join(f"`{name}`" for name in given), given)
    elif is_table(path):
        for row in files.read_rows(path):
            yield InputRow(row.location, row.values)
    else:
        yield from _from_lines(files.read_lines(path), f"{path}:", 1, task)


def example_rows(options: PredictOptions, task: PredictionTask) -> list[InputRow]:
    """Return what a row of an input that has none may be; some models read one of these only.

    Raises:
        InputError: If the input is damaged.
    """
    path = str(options.input_file)
    if is_table(path):
        columns = options.columns()
        types = {columns.get(name, name): type_ for name, type_ in task.inputs.items()}
        names = files.column_names(path)
        return [InputRow(path, {name: _EXAMPLES[types.get(name, str)] for name in names})]
    values = {name: _EXAMPLES[type_] for name, type_ in task.inputs.items()}
    required = {name: value for name, value in values.items() if name not in task.optional}
    return [InputRow(path, required), InputRow(path, values)]


def is_table(path: str | None) -> bool:
    """Return whether the input is a table, with columns that flags name.

    Raises:
        InputError: If the ending of the file is unknown.
    """
    if path in (None, STANDARD_STREAM):
        return False
    ending = _ending(str(path))
    if ending != _TEXT_FILE and ending not in files.TABLE_FORMATS:
        endings = ", ".join((*files.TABLE_FORMATS, _TEXT_FILE))
        raise InputError(f"`input_file`={path}: must end in {endings}, or be -")
    return ending != _TEXT_FILE


def _from_lines(
    lines: Iterable[str],
    place: str,
    first: int,
    task: PredictionTask,
    checked: PredictOptions | None = None,
) -> Iterator[InputRow]:
    """Yield rows of lines: a text each, or a JSON object each for tasks that read several texts."""
    for number, line in enumerate(lines, start=first):
        location = f"{place}{number}"
        try:
            row = InputRow(location, _values(line, location, task))
            if checked:
                columns_of([row], task, checked)
        except InputError as error:
            if not checked:
                raise
            row = InputRow(location, {}, str(error))
        yield row


def _values(line: str, location: str, task: PredictionTask) -> dict[str, Any]:
    if bad := re.search("[\udc80-\udcff]", line):  # escaped by `available_batches`
        raise InputError(f"{location}: not UTF-8 (byte 0x{ord(bad[0]) - 0xDC00:02x})")
    if len(task.inputs) - len(task.optional) > 1:
        return files.parse_json(line, location, dict[str, Any])
    if task.optional and "\t" in line:
        return dict(zip(task.inputs, line.split("\t", 1), strict=True))
    return {next(iter(task.inputs)): line}


def columns_of(rows: list[InputRow], task: PredictionTask, options: PredictOptions) -> Columns:
    """Return the texts of a task in rows, whose columns the options name.

    Raises:
        InputError: If a column is missing, or a value has another type; names the row.
    """
    columns: dict[str, str | None] = {name: name for name in task.inputs}
    if is_table(options.input_file):
        columns |= options.columns()
    else:
        given = {name for row in rows for name in row.values}
        columns |= {name: None for name in task.optional if name not in given}
    return {
        name: [_checked(row, columns[name] or name, type_) for row in rows]
        for name, type_ in task.inputs.items()
        if columns[name] or name not in task.optional
    }


def _checked(row: InputRow, column: str, type_: type) -> Any:
    value = files.Row(row.location, row.values).value(column)
    if type_ is int and isinstance(value, str) and value.isdecimal():
        value = int(value)  # in a table of texts
    is_valid = isinstance(value, type_) and not isinstance(value, bool)
    texts = [] if type_ is int else value if isinstance(value, list) else [value]
    # Of null and NaN, a table has a text that stands for None.
    if not is_valid or not all(isinstance(t, str) and files.value_of(t) is not None for t in texts):
        raise InputError(f"{row.location}: column {column!r} must contain {_TYPES[type_]}")
    for text in texts:
        files.check_unicode(text, row.location)
    return value


def error_of_row(error: InputError, rows: list[InputRow]) -> InputError:
    """Return the error of a text model (`texts`[3]: ...) under the place of the row."""
    message = str(error)
    found = _ITEM.match(message)
    if found and (found[1] or len(rows) == 1):
        message = rows[int(found[1] or 0)].location + message[found.end() :]
    return InputError(message)


class RowWriter(abc.ABC):
    """Writes rows to a file, some at a time.

    A row may have nothing but an `error`. It waits for one that has columns.
    """

    mode = "w"  # of the file
    has_columns = True  # the same in all rows; otherwise, each has its own
    columns: list[str] = []  # [] until they are known

    def __init__(self, file: IO):
        self._file, self._waiting = file, Results()

    def write(self, rows: Results) -> None:
        self.write_columns([row for row in rows if list(row) != ["error"]])
        self._waiting += rows
        if (self.columns or not self.has_columns) and self._waiting:
            self._write(self._waiting)
            self._waiting = []

    def write_columns(self, rows: Results) -> None:
        """Write the columns that rows have, once; `write` does so before it writes rows."""
        if self.has_columns and not self.columns and rows:
            self.columns = list(rows[0])
            self._begin(rows)

    @abc.abstractmethod
    def _write(self, rows: Results) -> None: ...

    def _begin(self, rows: Results) -> None:  # noqa: B027
        """Write the columns that rows have."""

    def close(self) -> None:
        """Complete the file, which the caller closes."""
        self.write([])


class JsonLinesWriter(RowWriter):
    """A JSON object per row."""

    has_columns = False

    def _write(self, rows):
        for row in rows:
            self._file.write(files.to_json(_plain(row), ensure_ascii=False) + "\n")
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
    text = value if isinstance(value, str) else files.to_json(_plain(value), ensure_ascii=False)
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
        files.replacing(path) as partial,
        files.open_file(partial, kind.mode) as file,
        contextlib.closing(kind(file)) as writer,
    ):
        yield writer


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
