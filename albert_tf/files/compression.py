"""Text and compressed files, which are known by the ending of their name: .gz, .bz2, .xz and .zst.

They are read as a stream from their start, so memory is bounded, and nothing can begin reading in
the middle of one.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, cast

from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files.reading import exists, open_file


def _open_zstd(file: IO[bytes]) -> Any:
    import pyarrow  # for such files only

    return pyarrow.CompressedInputStream(file, "zstd")


class _Compression(NamedTuple):
    """How a kind of compressed file begins, and what decompresses it."""

    magic: bytes
    opened: Callable[[IO[bytes]], Any]


_COMPRESSIONS = {
    ".gz": _Compression(b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": _Compression(b"BZh", bz2.BZ2File),
    ".xz": _Compression(b"\xfd7zXZ\0", lzma.LZMAFile),
    ".zst": _Compression(b"\x28\xb5\x2f\xfd", _open_zstd),
}
COMPRESSED_ENDINGS = tuple(_COMPRESSIONS)


def split_compression(path: str) -> tuple[str, str]:
    """`a/b.txt.gz` -> `a/b.txt`, `.gz`; the second is "" for a file that is not compressed."""
    rest, ending = os.path.splitext(path)
    return (rest, ending.lower()) if ending.lower() in _COMPRESSIONS else (path, "")


@contextlib.contextmanager
def open_decompressed(path: str) -> Iterator[IO[bytes]]:
    """Opens a file as bytes, decompressing it if its ending is that of a compression.

    Reading raises `InputError` if the file is truncated, damaged or not compressed.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(open_file(path, "rb")))
        _, ending = split_compression(path)
        if ending:
            native = stack.enter_context(contextlib.closing(_COMPRESSIONS[ending].opened(file)))
            file = io.BufferedReader(cast(io.RawIOBase, _Decompressed(path, native)), 1 << 18)
        yield file


class _Decompressed(io.RawIOBase):
    """A decompressed stream whose errors name the file."""

    def __init__(self, path: str, native: Any):
        self._path, self._native = path, native

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._native.read(len(buffer))
        except (InputError, StorageUnavailable):
            raise
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # of the disk
            raise InputError(f"{self._path}: {self._problem(error)}") from None
        buffer[: len(content)] = content
        return len(content)

    def _problem(self, error: Exception) -> str:
        _, ending = split_compression(self._path)
        with open_file(self._path, "rb") as file:
            start = file.read(_MAGIC_BYTES)
        if not start.startswith(_COMPRESSIONS[ending].magic):
            return f"not a {ending} file, although its name ends so; rename it"
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return f"damaged or truncated ({reason})"


_MAGIC_BYTES = max(len(each.magic) for each in _COMPRESSIONS.values())


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, which may be compressed.

    They come without line ends and without a byte-order mark.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    with open_decompressed(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}: line {number} is not UTF-8 ({error.reason}, byte "
                    f"0x{line[error.start]:02x}); {why_not_text(path)}"
                ) from None
            yield text.rstrip("\r\n")


def why_not_text(path: str) -> str:
    """What to do about a file that is not UTF-8."""
    with open_file(path, "rb") as file:
        start = file.read(_MAGIC_BYTES)
    if not split_compression(path)[1]:
        for ending, compression in _COMPRESSIONS.items():
            if start.startswith(compression.magic):
                return f"it is compressed; add {ending} to its name"
    return "convert the file first, for example with iconv"
