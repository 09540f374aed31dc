"""Files as streams of bytes that pyarrow can read: local or remote, compressed or not."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO

from albert_tf import files

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def split_ending(path: str) -> tuple[str, str]:
    """`a/b.jsonl.gz` -> `.jsonl`, `.gz`; the second is empty where nothing is compressed."""
    rest, ending = os.path.splitext(path)
    if ending in COMPRESSIONS:
        return os.path.splitext(rest)[1], ending
    return ending, ""


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if its name says so."""
    import pyarrow

    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(files.open_file(path, "rb")))
        if not isinstance(file, io.IOBase):
            file = stack.enter_context(io.BufferedReader(_Remote(file)))
        _, compression = split_ending(path)
        if compression:
            native = pyarrow.CompressedInputStream(file, COMPRESSIONS[compression])
            file = stack.enter_context(io.BufferedReader(native))
        yield file


class _Remote(io.RawIOBase):
    """A file of TensorFlow's layer (`gs://...`) with all that is expected of a Python file."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        read = self._file.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()
