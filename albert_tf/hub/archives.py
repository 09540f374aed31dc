"""Fetches archives from servers, and unpacks them.

Fetching is resumed, and checked against what the server says of the file. Archives are not trusted:
nothing is written outside the folder, no links, and no more than expected.
"""

import base64
import contextlib
import errno
import functools
import gzip
import http.client
import logging
import os
import re
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import google_crc32c

from albert_tf.errors import InputError
from albert_tf.files import remove, replacing, sync, write_files, write_text
from albert_tf.terminal import ProgressLine, duration

logger = logging.getLogger(__name__)

# Where addresses are looked up instead: MIRROR/HOST/PATH. For networks with a mirror, and tests.
MIRROR_VARIABLE = "ALBERT_TF_MIRROR"

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 3
_PAUSE_SECONDS = 5

# The largest published archive unpacks to less than a tenth of this.
LARGEST_SIZE = 16 << 30
MOST_FILES = 1000

_GZIP = b"\x1f\x8b"
_LARGEST_HEADER = 1 << 20
# What macOS adds to archives.
_IGNORED = ("__MACOSX", ".DS_Store")


class FetchError(Exception):
    """A file that could not be fetched; the message is the reason, in a few words."""


def fetch(address: str, path: str) -> None:
    """Fetch a file from `https://...`; a later call resumes one that was interrupted.

    The unfinished file is kept next to `path` under a hidden name, with what identifies the
    version on the server. If it changed in between, or the server gives no parts of files,
    fetching starts from the beginning. The folder must exist.

    Raises:
        FetchError: If the server cannot be reached, has no such file, or the file is damaged.
        OSError: If the file cannot be written.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise FetchError("HF_HUB_OFFLINE is set")  # which applies to other servers, too
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.download")
    for attempt in range(_ATTEMPTS):
        try:
            checksum = _receive(address, partial)
            break
        except _Interrupted as error:
            if attempt == _ATTEMPTS - 1:
                raise FetchError(f"{error}; what was received is kept") from None
            time.sleep(attempt * _PAUSE_SECONDS)  # the first time, at once
    _check(partial, checksum)
    sync(partial)
    os.replace(partial, path)
    remove(_version_file(partial))


class _Interrupted(Exception):
    """A connection that broke, after which fetching can resume."""


def _version_file(partial: str) -> str:
    return f"{partial.removesuffix('.download')}.version"


def _receive(address: str, partial: str) -> str | None:
    """Fetch what is missing of a file; return the server's CRC-32C of all of it, in base64."""
    version_file = _version_file(partial)
    received = os.path.getsize(partial) if os.path.exists(partial) else 0
    version = _read_version(version_file) if received else None
    headers = {"User-Agent": "albert_tf"}
    if version:
        headers |= {"Range": f"bytes={received}-", "If-Range": version}
    try:
        response = _open(address, headers)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and version:
            remove(partial)
            raise _Interrupted("the unfinished file does not belong to this one") from None
        raise FetchError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(_reason(getattr(error, "reason", error))) from None
    with response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        start = received if resumed else 0
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            remove(partial)
            raise _Interrupted("the server answered with another part of the file")
        length = response.headers.get("Content-Length")
        size = int(length) if length and length.isdecimal() else None
        total = None if size is None else start + size
        folder = os.path.dirname(partial)
        free = shutil.disk_usage(folder).free
        if size and size > free:
            raise InputError(f"{folder}: {size:,} bytes are needed, but only {free:,} are free")
        if not resumed:
            remove(partial)
            version = response.headers.get("ETag", "")
            if not version or version.startswith("W/"):  # of what means the same, if not in bytes
                version = response.headers.get("Last-Modified", "")
            write_text(version_file, version, durable=False)
        elif start:
            logger.info("%s: resuming after %s bytes", address, f"{start:,}")
        _copy(response, partial, start, total)
        stored = response.headers.get("x-goog-stored-content-encoding", "identity")
        hashes = response.headers.get("x-goog-hash", "") if stored == "identity" else ""
    found = re.search(r"crc32c=([A-Za-z0-9+/=]+)", hashes)
    return found[1] if found else None


def _open(address: str, headers: dict[str, str]) -> Any:
    """Open an address, or its mirror."""
    if mirror := os.environ.get(MIRROR_VARIABLE):
        address = f"{mirror.rstrip('/')}/{address.partition('://')[2]}"
    request = urllib.request.Request(address, headers=headers)
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    if address.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise FetchError(f"redirects to {response.url}, which is not encrypted")
    return response


def _copy(response: Any, partial: str, start: int, total: int | None) -> None:
    progress = ProgressLine()
    received, started = start, time.monotonic()
    of_total = f" of {total / 1e6:,.0f}" if total else ""
    try:
        with open(partial, "ab") as file:
            while chunk := _read(response):
                file.write(chunk)
                received += len(chunk)
                seconds = time.monotonic() - started
                left = seconds / (received - start) * (total - received) if total else 0.0
                fields = [f"{duration(left)} left"] if total else []
                progress.update(f"{received / 1e6:,.0f}{of_total} MB fetched", *fields)
    except OSError as error:  # of the disk, which does not name the file
        raise OSError(error.errno, error.strerror, partial) from None
    finally:
        progress.clear()
    if total is not None and received != total:
        raise _Interrupted(f"the connection broke after {received:,} of {total:,} bytes")


def _read(response: Any) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _check(partial: str, checksum: str | None) -> None:
    """Remove a file whose CRC-32C is not `checksum`."""
    if checksum is None:
        return
    digest = google_crc32c.Checksum()
    with open(partial, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if base64.b64encode(digest.digest()).decode() != checksum:
        remove(partial)
        remove(_version_file(partial))
        raise FetchError("the checksum does not match that of the server; rerun to fetch it again")


def _read_version(path: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        return file.read() or None
    return None


def _reason(error: object) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]


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
            write_files(partial, notes or {})


def _write(entry: _Entry, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with entry.open() as source, open(path, "xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the archive
            raise
        raise InputError(f"damaged (there is no {entry.name} where it should be)") from None
    if (size := os.path.getsize(path)) != entry.size:
        raise InputError(f"{entry.name} has {size:,} bytes instead of {entry.size:,}")


@contextlib.contextmanager
def _damage_reported(archive: str) -> Iterator[None]:
    """Raise the errors of the readers of archives as InputError."""
    try:
        yield
    except InputError as error:
        place = "" if str(error).startswith(archive) else f"{archive}: "
        raise InputError(f"{place}{error}") from None
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
