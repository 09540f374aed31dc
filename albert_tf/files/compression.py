"""Text and compressed files, which are known by the ending of their name: .gz, .bz2, .xz and .zst.

They are read as a stream from their start, so memory is bounded, and nothing can begin reading in
the middle of one.
"""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files.reading import exists, open_file


def _open_zstd(file: IO[bytes]) -> Any:
    import pyarrow  # for such files only

    return pyarrow.CompressedInputStream(file, "zstd")


# How a kind of compressed file begins, and what decompresses it.
_COMPRESSIONS: dict[str, tuple[bytes, Callable[[IO[bytes]], Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
    ".xz": (b"\xfd7zXZ\0", lzma.open),
    ".zst": (b"\x28\xb5\x2f\xfd", _open_zstd),
}
# Decompressed at once: what comes before damage is read, up to the last piece at most.
_PIECE_BYTES = 1 << 14
# Read at once by `open_lines`, beyond what is asked for at most.
_LINES_BYTES = 1 << 15
_CARRIAGE_RETURN = re.compile(rb"\r(?!\n)")

COMPRESSED_ENDINGS = tuple(_COMPRESSIONS)


def split_compression(path: str) -> tuple[str, str]:
    """Split `a/b.txt.gz` into `a/b.txt` and `.gz`, which is "" for an uncompressed file."""
    rest, ending = os.path.splitext(path)
    return (rest, ending.lower()) if ending.lower() in _COMPRESSIONS else (path, "")


@contextlib.contextmanager
def open_decompressed(path: str) -> Iterator[IO[bytes]]:
    """Open a file as bytes, decompressing it if its ending is that of a compression.

    Reading raises `InputError` if the file is truncated, damaged or not compressed.
    """
    with contextlib.closing(open_file(path)) as file:
        _, ending = split_compression(path)
        if not ending:
            yield file
            return
        with contextlib.closing(_COMPRESSIONS[ending][1](file)) as native:
            yield io.BufferedReader(cast(io.RawIOBase, _Decompressed(path, native)), 1 << 18)


class _Decompressed(io.RawIOBase):
    """A decompressed stream whose errors name the file."""

    def __init__(self, path: str, native: Any):
        self._path, self._native = path, native

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._native.read1(min(len(buffer), _PIECE_BYTES))
        except (InputError, StorageUnavailable):
            raise
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # of the disk
            _, ending = split_compression(self._path)
            problem = f"not a {ending} file, although its name ends so; rename it"
            if _compression_of(self._path) == ending:
                reason = (str(error) or type(error).__name__).splitlines()[0]
                problem = f"damaged or truncated ({reason})"
            raise InputError(f"{self._path}: {problem}") from None
        buffer[: len(content)] = content
        return len(content)


@contextlib.contextmanager
def open_lines(path: str, begin: int = 0) -> Iterator[IO[bytes]]:
    """Open a text file, which may be compressed, as bytes in which a line feed ends every line.

    A carriage return that no line feed follows becomes one, as with Python's universal newlines, so
    that every byte keeps its place.

    Reading begins at the byte `begin`, which is 0 in a compressed file.
    """
    with open_decompressed(path) as file:
        if begin:
            file.seek(begin)
        yield io.BufferedReader(cast(io.RawIOBase, _LineFeeds(file)), _LINES_BYTES)


class _LineFeeds(io.RawIOBase):
    def __init__(self, file: IO[bytes]):
        self._file, self._held = file, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        held, more = self._held, self._file.read(len(buffer) - len(self._held))
        content = held + more
        # What follows the last one is not known yet.
        self._held = b"\r" if more and content.endswith(b"\r") else b""
        content = content[: len(content) - len(self._held)]
        if self._held and not content:
            return self.readinto(buffer)
        if b"\r" in content and content.count(b"\r") > content.count(b"\r\n"):
            content = _CARRIAGE_RETURN.sub(b"\n", content)
        buffer[: len(content)] = content
        return len(content)


def _compression_of(path: str) -> str:
    """Return the ending that the first bytes of a file call for, "" if none does."""
    with open_file(path) as file:
        start = file.read(8)
    return next((e for e, (magic, _) in _COMPRESSIONS.items() if start.startswith(magic)), "")


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, which may be compressed.

    They come without line ends and without a byte-order mark.

    Raises:
        InputError: If there is no such file, or a line is not UTF-8.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    with open_lines(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(path, number, error) from None
            yield text.rstrip("\r\n")


def located_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of `read_lines` that are not blank, each after its place, "file:line"."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def check_utf8(path: str) -> None:
    """Raise the `InputError` that `read_lines` would, but much faster."""
    try:
        with open_decompressed(path) as file:
            for _ in codecs.iterdecode(iter(lambda: file.read(1 << 20), b""), "utf-8"):
                pass
    except UnicodeDecodeError:
        for _ in read_lines(path):  # names the line
            pass


def not_utf8(path: str, number: int, error: UnicodeDecodeError) -> InputError:
    """Return the error that names a line that is not UTF-8, and what to do about the file."""
    advice = "convert the file first, for example with iconv"
    if (ending := _compression_of(path)) and not split_compression(path)[1]:
        advice = f"it is compressed; add {ending} to its name"
    byte = error.object[error.start]
    return InputError(
        f"{path}: line {number} is not UTF-8 ({error.reason}, byte 0x{byte:02x}); {advice}"
    )
