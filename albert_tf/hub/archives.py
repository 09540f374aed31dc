"""Unpack untrusted archives: nothing outside the folder, no links, no more than expected."""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
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


class Member(NamedTuple):
    """A file in an archive.

    Attributes:
        name: its path in the archive, checked.
        size: in bytes, unpacked.
        open: opens its content.
    """

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack(
    archive: str,
    folder: str,
    notes: Mapping[str, str] | None = None,
    largest_size: int = LARGEST_SIZE,
) -> None:
    """Unpack a `.tar`, `.tar.gz` or `.zip` file into a new folder.

    Everything is checked before anything is written. The folder appears under its name when it is
    complete.

    Args:
        archive: the file.
        folder: must not exist.
        notes: text files to add, name -> content.
        largest_size: that all files may have together, in bytes.

    Raises:
        InputError: If the archive is damaged; contains links, devices, or names outside the
            folder; has more files or bytes than allowed; or there is no space for them.
        OSError: If a file cannot be written.
    """
    with _damage_reported(archive), _members(archive, largest_size) as members:
        if not members:
            raise InputError(f"{archive}: contains no files")
        size = sum(member.size for member in members)
        free = shutil.disk_usage(os.path.dirname(os.path.abspath(folder))).free
        if size > free:
            raise InputError(
                f"{archive}: unpacks to {size:,} bytes, but only {free:,} are free in "
                f"{os.path.dirname(folder)}"
            )
        with replacing(folder) as partial:
            for member in members:
                _write(member, os.path.join(partial, member.name))
            for name, text in (notes or {}).items():
                write_text(os.path.join(partial, name), text)


def _write(member: Member, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    written = 0
    with open(path, "xb") as target:
        for chunk in _chunks(member):
            written += len(chunk)
            target.write(chunk)
    if written != member.size:
        raise InputError(f"{member.name} has {written:,} bytes instead of {member.size:,}")


def _chunks(member: Member) -> Iterator[bytes]:
    try:
        with member.open() as source:
            while chunk := source.read(_CHUNK):
                yield chunk
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the archive
            raise
        raise InputError(f"damaged (there is no {member.name} where it should be)") from None


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
def _members(archive: str, largest_size: int) -> Iterator[list[Member]]:
    with open(archive, "rb") as file:
        start = file.read(4)
        file.seek(0)
        if start[:2] == b"PK":
            with zipfile.ZipFile(file) as opened:
                yield _zip_members(opened, largest_size)
            return
        content: Any = gzip.GzipFile(fileobj=file) if start.startswith(_GZIP) else file
        bounded = _Bounded(content, largest_size + MOST_FILES * _LARGEST_HEADER)
        with tarfile.open(fileobj=bounded, mode="r:") as opened_tar:  # type: ignore[call-overload]
            members = _tar_members(opened_tar, largest_size)
            while bounded.read(_CHUNK):  # to the end, where gzip has its checksum
                pass
            yield members


class _Bounded(io.RawIOBase):
    """A file of which no more than `limit` bytes are read, and no large part at once.

    Without this, a few kilobytes of zeros could keep a reader of headers busy for hours, or fill
    the memory: `tarfile` reads the extended headers of a file in one piece.
    """

    def __init__(self, file: IO[bytes], limit: int):
        self._file, self._limit = file, limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
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


class _Checked:
    """Checks the files of an archive one by one, and all together."""

    def __init__(self, largest_size: int):
        self._left, self._limit = largest_size, largest_size
        self._entries = 0
        self.members: list[Member] = []
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, raw: str, kind: str, size: int, open: Callable[[], IO[bytes]]) -> None:
        """Add an entry.

        Args:
            raw: its name as stored.
            kind: "file", "folder", or what it is instead.
            size: of a file.
            open: opens the content of a file.
        """
        self._entries += 1
        if self._entries > MOST_FILES:
            raise InputError(f"contains more than {MOST_FILES:,} files")
        parts = [part for part in raw.split("/") if part not in ("", ".")]
        if raw.startswith("/") or ".." in parts or "\\" in raw or not raw.isprintable():
            raise InputError(f"contains {raw!r}, which is not a name inside a folder")
        if kind not in ("file", "folder"):
            raise InputError(f"contains {raw!r}, {kind}; only files and folders are unpacked")
        if kind == "folder" or not parts or any(part in _IGNORED for part in parts):
            return
        name = "/".join(parts)
        above = {"/".join(parts[:length]) for length in range(1, len(parts))}
        if name in self._files | self._folders or above & self._files:
            raise InputError(f"contains {raw!r} twice")
        self._left -= size
        if size < 0 or self._left < 0:
            raise InputError(f"unpacks to more than {self._limit:,} bytes")
        self._files.add(name)
        self._folders |= above
        self.members.append(Member(name, size, open))


def _zip_members(archive: zipfile.ZipFile, largest_size: int) -> list[Member]:
    checked = _Checked(largest_size)
    for info in archive.infolist():
        mode = stat.S_IFMT(info.external_attr >> 16)
        kind = "folder" if info.is_dir() else "file"
        if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
            kind = "a link or a device"
        if info.flag_bits & 1:
            kind = "an encrypted file"
        # Reading stops at `file_size`, whatever else is compressed there.
        checked.add(info.filename, kind, info.file_size, functools.partial(archive.open, info))
    return checked.members


def _tar_members(archive: tarfile.TarFile, largest_size: int) -> list[Member]:
    checked = _Checked(largest_size)
    for info in archive:
        kind = "folder" if info.isdir() else "file"
        if not info.isdir() and (not info.isreg() or info.issparse()):
            kind = "a link, a device or a sparse file"
        checked.add(info.name, kind, info.size, functools.partial(_extracted, archive, info))
    return checked.members


def _extracted(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(info)
    assert file is not None  # of a regular file
    return file
