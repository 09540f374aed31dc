"""Files, local or remote (`gs://...`): found by glob, read as UTF-8, written whole or not."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from albert_tf.errors import InputError


def is_remote(path: str) -> bool:
    """Whether `path` has a scheme (`gs://bucket/file`), for TensorFlow's file layer to open."""
    return "://" in path


def _gfile():
    import tensorflow as tf  # only remote paths pay for loading it

    return tf.io.gfile


def matches(pattern: str) -> list[str]:
    """The files that match a pattern, sorted."""
    return sorted(_gfile().glob(pattern) if is_remote(pattern) else glob.glob(pattern))


def expand_globs(patterns: Iterable[str], flag: str) -> list[str]:
    """The files that match any of `patterns`, sorted, each once.

    Raises:
        InputError: a pattern matches nothing; the message names `flag` and the pattern.
    """
    found: set[str] = set()
    for pattern in patterns:
        if not (paths := matches(pattern)):
            raise InputError(f"--{flag}: no file matches {pattern!r}")
        found.update(paths)
    return sorted(found)


def open_file(path: str, mode: str = "r") -> IO:
    """Opens `path`; text is UTF-8 with the line ends as they are in the file."""
    if is_remote(path):
        return _gfile().GFile(path, mode)
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


def exists(path: str) -> bool:
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def size(path: str) -> int:
    """Bytes of a file."""
    return _gfile().stat(path).length if is_remote(path) else os.path.getsize(path)


def sizes(folder: str) -> dict[str, int]:
    """Bytes of every file in a folder and those in it, by the path from there, sorted."""
    walk = _gfile().walk(folder) if is_remote(folder) else os.walk(folder)
    paths = [os.path.join(place, name) for place, _, names in walk for name in names]
    return {os.path.relpath(path, folder): size(path) for path in sorted(paths)}


def file_identity(path: str) -> list[int]:
    """What changes when a file is replaced or written to, found without reading it.

    Returns:
        The size in bytes and, for a local file, the modification time in nanoseconds.
    """
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
    """The whole of a UTF-8 text file."""
    with open_file(path) as file:
        return file.read()


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file without their line ends; a byte-order mark is dropped.

    Raises:
        InputError: the file is missing or holds bytes that are not UTF-8.
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


def make_folder(path: str, flag: str) -> None:
    """Creates the folder `path` if need be and checks that files can be written in it.

    Raises:
        InputError: it cannot be created or written; the message names `flag`.
    """
    if is_remote(path):
        _gfile().makedirs(path)
        return
    try:
        os.makedirs(path or ".", exist_ok=True)
    except OSError as error:
        raise InputError(f"--{flag}: cannot create the folder {path!r}: {error.strerror}") from None
    if not os.access(path or ".", os.W_OK | os.X_OK):
        raise InputError(f"--{flag}: no permission to write in the folder {path!r}")


def lock_folder(path: str, flag: str) -> int:
    """Takes a local folder for this process alone.

    Returns:
        A descriptor; `os.close` gives the folder back, and so does the end of the process. Where
        the file system has no locks, a line on standard error says so.

    Raises:
        InputError: another process has it; the message names `flag`.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"--{flag}: another process is at work on it, in {path}") from None
    except OSError as error:  # network file systems, some of which know no locks on folders
        print(
            f"note: {path} cannot be locked ({error.strerror}); let no second program write there",
            file=sys.stderr,
        )
    return descriptor


@contextlib.contextmanager
def folder_of_one(path: str, flag: str) -> Iterator[None]:
    """Creates the folder `path` if need be, and keeps other programs from writing there meanwhile.

    A folder that is empty at the end, because the work never began, is removed. Remote folders have
    no locks: they are created only.

    Raises:
        InputError: it cannot be created or written, or another process has it.
    """
    make_folder(path, flag)
    if is_remote(path):
        yield
        return
    descriptor = lock_folder(path, flag)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(path)
        os.close(descriptor)


def temporary_name(path: str) -> str:
    """A name beside `path`, unique to this process, for what is not finished yet."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{os.getpid()}.partial")


def rename(source: str, target: str) -> None:
    """Moves a file over `target` in one step."""
    if is_remote(target):
        _gfile().rename(source, target, overwrite=True)
    else:
        os.replace(source, target)


def copy_file(source: str, target: str) -> None:
    """Makes `target` the same file as `source`, whole or not at all; without a copy where it can.

    Meant for files that are replaced and never written to.
    """
    remote = is_remote(target) or is_remote(source)
    if not remote and os.path.exists(target) and os.path.samefile(source, target):
        return  # renaming a link to a file over another one does nothing, and leaves both
    with replacing(target) as partial:
        if remote:
            _gfile().copy(source, partial, overwrite=True)
            return
        try:
            os.link(source, partial)
        except OSError:  # another disk, or a file system without links
            shutil.copyfile(source, partial)


def remove(path: str) -> None:
    """Removes a file or folder; one that is not there is fine."""
    if is_remote(path):
        if _gfile().exists(path):
            _gfile().rmtree(path) if _gfile().isdir(path) else _gfile().remove(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields a temporary name to write to; it becomes `path` when the block ends without an error.

    Works for a file and for a folder (which must not exist yet). After an error nothing is left.
    """
    partial = temporary_name(path)
    try:
        yield partial
        rename(partial, path)
    except BaseException:
        remove(partial)
        raise


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, whole or not at all."""
    with replacing(path) as partial, open_file(partial, "w") as file:
        file.write(text)


def write_bytes(path: str, content: bytes) -> None:
    """Writes a binary file, whole or not at all."""
    with replacing(path) as partial, open_file(partial, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def tensorflow_errors_as_os_errors() -> Iterator[None]:
    """A full disk and the like, met by TensorFlow, as the error that Python's own files raise."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(tensorflow_reason(error)) from None


def tensorflow_reason(error: Exception) -> str:
    """What an error of TensorFlow says, without the graph nodes around it."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    lines = [line for line in lines if not line.startswith(_NO_REASONS)]
    return lines[0].split("}}")[-1].split(" [Op:")[0].strip() if lines else type(error).__name__


# Beginnings of lines that TensorFlow puts before the reason.
_NO_REASONS = ("Graph execution error", "Detected at node", "<stack traces")
