"""Parquet files, whose errors name the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files.reading import exists, open_file
from albert_tf.files.remote import is_remote

# Of a column; otherwise, all of it that a row group has is loaded at once.
_BUFFER_BYTES = 1 << 20


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
    """Yield the rows of a file.

    Yields:
        "file:number", from 1, for errors; and column name -> value: texts, numbers, lists and
        dictionaries.

    Raises:
        InputError, OSError: As of `open_parquet`.
    """
    with open_parquet(path) as table:
        number = 0
        for batch in table.iter_batches(1000):
            for values in batch.to_pylist():
                number += 1
                yield f"{path}:{number}", values
