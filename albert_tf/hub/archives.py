"""Unpack untrusted archives: nothing outside the folder, no links, no more than expected."""

import contextlib
import errno
import functools
import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import replacing, write_text

# The largest published archive unpacks to less than a tenth of this.
LARGEST_SIZE = 16 << 30
MOST_FILES = 1000

_GZIP = b"\x1f\x8b"
_LARGEST_HEADER = 1 << 20
_CHUNK = 1 << 20
# What macOS adds to archives.
_IGNORED = ("__MACOSX", ".DS_Store")


class _Entry(NamedTuple):
    """An entry of an archive; a `kind` other than "file" and "folder" says what it is instead."""

    name: str
    kind: str
    size: int
    open: Callable[[], Any]


def unpack(
    archive: str,
    folder: str,
    notes: Mapping[str, str] | None = None,
    largest_size: int = LARGEST_SIZE,
) -> None:
    """Unpack a `.tar`, `.tar.gz` or `.zip` file into a new folder.

    Everything is checked before anything is written. The folder appears under its name when it is
    complete, with the text files in `notes`, name -> content.

    Raises:
        InputError: If the archive is damaged; contains links, devices, or names outside the
            folder; has more files or bytes than allowed; or there is no space for them.
        OSError: If a file cannot be written.
    """
    with _damage_reported(archive), _files(archive, largest_size) as found:
        if not found:
            raise InputError(f"{archive}: contains no files")
        size = sum(entry.size for entry in found.values())
        free = shutil.disk_usage(os.path.dirname(os.path.abspath(folder))).free
        if size > free:
            raise InputError(
                f"{archive}: unpacks to {size:,} bytes, but only {free:,} are free in "
                f"{os.path.dirname(folder)}"
            )
        with replacing(folder) as partial:
            for name, entry in found.items():
                _write(entry, os.path.join(partial, name))
            for name, text in (notes or {}).items():
                write_text(os.path.join(partial, name), text)


def _write(entry: _Entry, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with entry.open() as source, open(path, "xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the archive
            raise
        raise InputError(f"damaged (there is no {entry.name} where it should be)") from None
    if os.path.getsize(path) != entry.size:
        raise InputError(
            f"{entry.name} has {os.path.getsize(path):,} bytes instead of {entry.size:,}"
        )


@contextlib.contextmanager
def _damage_reported(archive: str) -> Iterator[None]:
    """Raise the errors of the readers of archives as InputError."""
    try:
        yield
    except InputError as error:
        message = str(error)
        raise InputError(
            message if message.startswith(archive) else f"{archive}: {message}"
        ) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{archive}: damaged ({str(error) or type(error).__name__})") from None
    except (NotImplementedError, UnicodeError, ValueError, OverflowError) as error:
        raise InputError(f"{archive}: cannot be unpacked ({error})") from None


@contextlib.contextmanager
def _files(archive: str, largest_size: int) -> Iterator[dict[str, _Entry]]:
    """Open an archive and yield its files by their path in it."""
    with open(archive, "rb") as file:
        start = file.read(4)
        file.seek(0)
        if start[:2] == b"PK":
            with zipfile.ZipFile(file) as opened:
                yield _checked(_zip_entries(opened), largest_size)
            return
        content: Any = gzip.GzipFile(fileobj=file) if start.startswith(_GZIP) else file
        bounded = _Bounded(content, largest_size + MOST_FILES * _LARGEST_HEADER)
        with tarfile.open(fileobj=bounded, mode="r:") as opened_tar:  # type: ignore[call-overload]
            found = _checked(_tar_entries(opened_tar), largest_size)
            while bounded.read(_CHUNK):  # to the end, where gzip has its checksum
                pass
            yield found


class _Bounded:
    """A file of which no more than `limit` bytes are read, and no large part at once.

    Without this, a few kilobytes of zeros could keep a reader of headers busy for hours, or fill
    the memory: `tarfile` reads the extended headers of a file in one piece.
    """

    def __init__(self, file: IO[bytes], limit: int):
        self._file, self._limit = file, limit

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(offset)
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_HEADER:
            raise InputError(f"a header of more than {_LARGEST_HEADER:,} bytes")
        self._check(self._file.tell() + size)
        return self._file.read(size)

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise InputError(f"unpacks to more than {self._limit:,} bytes")


def _checked(entries: Iterable[_Entry], largest_size: int) -> dict[str, _Entry]:
    """Check the entries one by one, and all together; return the files by their path."""
    found: dict[str, _Entry] = {}
    folders: set[str] = set()
    left = largest_size
    for number, entry in enumerate(entries, start=1):
        raw = entry.name
        if number > MOST_FILES:
            raise InputError(f"contains more than {MOST_FILES:,} files")
        parts = [part for part in raw.split("/") if part not in ("", ".")]
        if raw.startswith("/") or ".." in parts or "\\" in raw or not raw.isprintable():
            raise InputError(f"contains {raw!r}, which is not a name inside a folder")
        if entry.kind not in ("file", "folder"):
            raise InputError(f"contains {raw!r}, {entry.kind}; only files and folders are unpacked")
        if entry.kind == "folder" or not parts or any(part in _IGNORED for part in parts):
            continue
        name = "/".join(parts)
        above = {"/".join(parts[:length]) for length in range(1, len(parts))}
        if name in found or name in folders or above & found.keys():
            raise InputError(f"contains {raw!r} twice")
        left -= entry.size
        if entry.size < 0 or left < 0:
            raise InputError(f"unpacks to more than {largest_size:,} bytes")
        found[name] = entry
        folders |= above
    return found


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[_Entry]:
    for info in archive.infolist():
        mode = stat.S_IFMT(info.external_attr >> 16)
        kind = "folder" if info.is_dir() else "file"
        if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
            kind = "a link or a device"
        if info.flag_bits & 1:
            kind = "an encrypted file"
        # Reading stops at `file_size`, whatever else is compressed there.
        yield _Entry(info.filename, kind, info.file_size, functools.partial(archive.open, info))


def _tar_entries(archive: tarfile.TarFile) -> Iterator[_Entry]:
    for info in archive:
        kind = "folder" if info.isdir() else "file"
        if not info.isdir() and (not info.isreg() or info.issparse()):
            kind = "a link, a device or a sparse file"
        yield _Entry(info.name, kind, info.size, functools.partial(archive.extractfile, info))
