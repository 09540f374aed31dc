"""Reads local and remote files: globs, UTF-8 text, and digests."""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from typing import IO

from albert_tf.errors import InputError
from albert_tf.files.remote_files import remote_files
from albert_tf.files.servers import file_system, is_read_only, is_remote, open_on_server


def matches(pattern: str) -> list[str]:
    """Returns the files that match a pattern, sorted."""
    if is_read_only(pattern):
        with file_system(pattern) as (system, name):
            if not glob.has_magic(name):
                return [pattern] if system.exists(name) else []
            return sorted(map(system.unstrip_protocol, system.glob(name)))
    return sorted(remote_files().glob(pattern) if is_remote(pattern) else glob.glob(pattern))


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
    """Opens `path`; text is read and written as UTF-8 with its line ends unchanged."""
    if is_read_only(path):
        file = open_on_server(path)
        return file if "b" in mode else io.TextIOWrapper(file, "utf-8", newline="")
    if is_remote(path):
        return remote_files().GFile(path, mode)
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


def exists(path: str) -> bool:
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.exists(name)
    return remote_files().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.isdir(name)
    return remote_files().isdir(path) if is_remote(path) else os.path.isdir(path)


def names_in(folder: str) -> list[str]:
    """Returns the names of all files and folders in a folder."""
    return remote_files().listdir(folder) if is_remote(folder) else os.listdir(folder)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.size(name)
    return remote_files().stat(path).length if is_remote(path) else os.path.getsize(path)


def sizes(folder: str) -> dict[str, int]:
    """Returns the size in bytes of every file below a folder, by relative path, sorted."""
    walk = remote_files().walk(folder) if is_remote(folder) else os.walk(folder)
    paths = [os.path.join(place, name) for place, _, names in walk for name in names]
    return {os.path.relpath(path, folder): size(path) for path in sorted(paths)}


def file_identity(path: str) -> list[int]:
    """What changes when a file is replaced or written to, found without reading it.

    Returns:
        The size in bytes and, for a local file, the modification time in nanoseconds; through
        fsspec, a hash of what the server says about the file.
    """
    if is_read_only(path):
        with file_system(path) as (system, name):
            return [system.size(name), system.checksum(name)]
    if is_remote(path):
        return [size(path)]
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def sha256_of(path: str) -> str:
    """The SHA-256 of the content of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_file(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def read_text(path: str) -> str:
    """Returns the content of a UTF-8 text file.

    Raises:
        InputError: if the file contains bytes that are not valid UTF-8.
    """
    with open_file(path, "rb") as file:
        content = file.read()
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
