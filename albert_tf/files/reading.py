"""Reads local and remote files: globs, UTF-8 text, and digests."""

from __future__ import annotations

import base64
import glob
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from typing import IO

import google_crc32c

from albert_tf.errors import InputError
from albert_tf.files.remote import (
    RemoteFile,
    files_below,
    info_of,
    is_remote,
    run,
    scheme_of,
    with_scheme,
)

_CHUNK_BYTES = 1 << 20


def matches(pattern: str) -> list[str]:
    """Returns the files that match a pattern, sorted."""
    if not is_remote(pattern):
        return sorted(glob.glob(pattern))
    if not glob.has_magic(pattern):
        return [pattern] if exists(pattern) else []
    found = run(pattern, lambda system, name: system.glob(name))
    return sorted(with_scheme(pattern, path) for path in found)


def expand_globs(patterns: Iterable[str], argument: str = "patterns") -> list[str]:
    """Returns the files that match any of `patterns`, sorted, without duplicates.

    Args:
        patterns: globs or plain paths.
        argument: the caller's name of `patterns`, for errors.

    Raises:
        InputError: if a pattern matches no file.
    """
    found: set[str] = set()
    for pattern in patterns:
        if not (paths := matches(pattern)):
            raise InputError(f"`{argument}`: no file matches {pattern!r}")
        for path in paths:
            if not is_remote(path) and not (os.path.isfile(path) or os.path.isdir(path)):
                raise InputError(
                    f"`{argument}`={path}: is a pipe or a device; save its content to a file, "
                    "which is read several times"
                )
        found.update(paths)
    return sorted(found)


def open_file(path: str, mode: str = "r") -> IO:
    """Opens `path`; text is read and written as UTF-8 with its line ends unchanged.

    Remote files can only be read; `replacing` writes them.
    """
    if is_remote(path):
        if mode not in ("r", "rb"):
            raise ValueError(f"{path}: cannot be opened with mode {mode!r}")
        file = io.BufferedReader(RemoteFile(path))
        return file if "b" in mode else io.TextIOWrapper(file, "utf-8", newline="")
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


def read_bytes(path: str, start: int = 0, end: int | None = None) -> bytes:
    """Reads a file, or a part of it; a remote one with one request."""
    if is_remote(path):
        return run(path, lambda system, name: system.cat_file(name, start=start, end=end))
    with open(path, "rb") as file:
        file.seek(start)
        return file.read() if end is None else file.read(end - start)


def exists(path: str) -> bool:
    return info_of(path) is not None if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    if is_remote(path):
        return (info_of(path) or {}).get("type") == "directory"
    return os.path.isdir(path)


def names_in(folder: str) -> list[str]:
    """Returns the names of all files and folders in a folder."""
    if not is_remote(folder):
        return os.listdir(folder)
    found = run(folder, lambda system, name: system.ls(name, detail=False))
    return [os.path.basename(path.rstrip("/")) for path in found]


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    return file_identity(path)[0]


def sizes(folder: str) -> dict[str, int]:
    """Returns the size in bytes of every file below a folder, by relative path, sorted."""
    if is_remote(folder):
        return {name: info["size"] for name, info in files_below(folder).items()}
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(path, folder): os.path.getsize(path) for path in sorted(paths)}


def checksums(folder: str) -> dict[str, tuple[int, int]]:
    """Size and CRC-32C of every file below a folder, by relative path, sorted.

    Google Cloud Storage computes the CRC-32C of what it receives, so that nothing is read.
    """
    known = files_below(folder) if scheme_of(folder) == "gs" else {}

    def crc_of(name: str) -> int:
        if crc := known.get(name, {}).get("crc32c"):
            return int.from_bytes(base64.b64decode(crc), "big")
        crc = 0
        for chunk in _chunks(os.path.join(folder, name)):
            crc = google_crc32c.extend(crc, chunk)
        return crc

    return {name: (size, crc_of(name)) for name, size in sizes(folder).items()}


def file_identity(path: str) -> list[int]:
    """What changes when a file is replaced or written to, found without reading it.

    Returns:
        The size in bytes and, for a local file, the modification time in nanoseconds; for a remote
        one, a hash of what the server says about the file.
    """
    if is_remote(path):
        info = run(path, lambda system, name: system.info(name))
        digest = hashlib.sha256(repr(sorted(info.items(), key=lambda item: item[0])).encode())
        return [info["size"], int(digest.hexdigest()[:16], 16)]
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def sha256_of(path: str) -> str:
    """The SHA-256 of the content of a file, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: str) -> Iterator[bytes]:
    with open_file(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def read_text(path: str) -> str:
    """Returns the content of a UTF-8 text file.

    Raises:
        InputError: if the file contains bytes that are not valid UTF-8.
    """
    content = read_bytes(path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = f"0x{content[error.start]:02x} at {error.start}"
        raise InputError(f"{path}: not UTF-8 ({error.reason}, byte {byte})") from None


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file without line ends and without a byte-order mark.

    Raises:
        InputError: if the file is missing or contains bytes that are not valid UTF-8.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    with open_file(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}: line {number} is not UTF-8 ({error.reason}, byte "
                    f"0x{line[error.start]:02x}); convert the file first, for example with iconv"
                ) from None
            yield text.rstrip("\r\n")
