"""Local and remote files: globs, UTF-8 text, and atomic writes.

Files like `gs://bucket/file` are read and written through TensorFlow, or through fsspec in a
process that runs on JAX. Others are read through fsspec (`hf://datasets/org/name/file`,
`s3://bucket/file`, `https://host/file`, ...).
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import io
import logging
import os
import re
import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import IO, Any

from albert_tf.durability import remove_leftovers, sync, sync_names, temporary_name
from albert_tf.errors import InputError
from albert_tf.remote_files import RemoteFiles
from albert_tf.servers import file_system, is_read_only, is_remote, open_on_server

logger = logging.getLogger(__name__)


def _gfile() -> Any:
    """Remote files: `tf.io.gfile`, or the same through fsspec in a process that runs on JAX."""
    if os.environ.get("KERAS_BACKEND") == "jax":
        return RemoteFiles()
    import tensorflow as tf  # loaded for such paths only

    return tf.io.gfile


def matches(pattern: str) -> list[str]:
    """Returns the files that match a pattern, sorted."""
    if is_read_only(pattern):
        with file_system(pattern) as (system, name):
            if not glob.has_magic(name):
                return [pattern] if system.exists(name) else []
            return sorted(map(system.unstrip_protocol, system.glob(name)))
    return sorted(_gfile().glob(pattern) if is_remote(pattern) else glob.glob(pattern))


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
        return _gfile().GFile(path, mode)
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


def exists(path: str) -> bool:
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.exists(name)
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.isdir(name)
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def names_in(folder: str) -> list[str]:
    """Returns the names of all files and folders in a folder."""
    return _gfile().listdir(folder) if is_remote(folder) else os.listdir(folder)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    if is_read_only(path):
        with file_system(path) as (system, name):
            return system.size(name)
    return _gfile().stat(path).length if is_remote(path) else os.path.getsize(path)


def sizes(folder: str) -> dict[str, int]:
    """Returns the size in bytes of every file below a folder, by relative path, sorted."""
    walk = _gfile().walk(folder) if is_remote(folder) else os.walk(folder)
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


def check_outputs(
    outputs: Mapping[str, Iterable[str]], inputs: Mapping[str, Iterable[str | None]]
) -> None:
    """Checks that files can be written without replacing what is read.

    Args:
        outputs: the files to write, by the caller's name for them.
        inputs: the files to read, by the caller's name for them; None and "" are ignored.

    Raises:
        InputError: if a file is both, by whatever name or link, if an output is a folder, or if
            its name contains a character of globs.
    """
    read = {
        identity: argument
        for argument, paths in inputs.items()
        for path in paths
        if path
        for identity in _identities(path)
    }
    for argument, paths in outputs.items():
        for path in paths:
            check_name(path, argument)
            if not is_remote(path) and os.path.isdir(path):
                raise InputError(f"`{argument}`: {path} is a folder; name a file")
            for identity in _identities(path):
                if identity in read:
                    raise InputError(
                        f"`{argument}`: {path} is also read, as `{read[identity]}`; choose "
                        "another name"
                    )


def _identities(path: str) -> list[Hashable]:
    """What tells files apart: their names without links, and where they are on the disk."""
    if is_remote(path):
        return [path]
    found: list[Hashable] = [os.path.realpath(path)]
    with contextlib.suppress(OSError):
        status = os.stat(path)
        found.append((status.st_dev, status.st_ino))
    return found


def check_name(path: str, argument: str = "path") -> None:
    """Checks that a path to be written to does not look like a glob, which would not find it again.

    Raises:
        InputError: if it contains `*`, `?` or `[`.
    """
    if glob.has_magic(path):
        raise InputError(
            f"`{argument}`={path}: contains *, ? or [, which stand for other characters where "
            "files are looked for; choose a name without them"
        )


def make_folder(path: str, argument: str = "path") -> None:
    """Creates the folder `path` if it does not exist and checks that it is writable.

    Args:
        path: the folder; "" is the current one.
        argument: the caller's name of `path`, for errors.

    Raises:
        InputError: if the folder cannot be created or written to, or its name looks like a glob.
    """
    check_name(path, argument)
    if is_read_only(path):
        raise InputError(f"`{argument}`: {path} can only be read; name a local folder or gs://...")
    if is_remote(path):
        _gfile().makedirs(path)
        return
    created, above = [], path.rstrip("/")
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
        created.append(above)
    try:
        os.makedirs(path or ".", exist_ok=True)
        for above in created:
            sync_names(above)
    except OSError as error:
        raise InputError(
            f"`{argument}`: cannot create the folder {path!r}: {error.strerror}"
        ) from None
    if not os.access(path or ".", os.W_OK | os.X_OK):
        raise InputError(f"`{argument}`: no permission to write to the folder {path!r}")


def lock_folder(path: str, argument: str = "path") -> int:
    """Locks a local folder for this process.

    Args:
        path: an existing folder.
        argument: the caller's name of `path`, for errors.

    Returns:
        A file descriptor; `os.close` releases the lock, and so does the end of the process. On
        file systems without locks, a warning is logged instead.

    Raises:
        InputError: if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"`{argument}`: another process is already writing to {path}") from None
    except OSError as error:  # some network file systems do not support locks on folders
        logger.warning(
            "%s cannot be locked (%s); do not run a second program that writes to it",
            path,
            error.strerror,
        )
    return descriptor


@contextlib.contextmanager
def folder_of_one(path: str, argument: str = "path") -> Iterator[None]:
    """Creates the folder `path` if it does not exist and locks it for the duration of the block.

    A folder that is still empty at the end, because the work never began, is removed. Remote
    folders are created but not locked.

    Args:
        path: the folder.
        argument: the caller's name of `path`, for errors.

    Raises:
        InputError: if the folder cannot be created or written to, or another process holds the
            lock.
    """
    make_folder(path, argument)
    if is_remote(path):
        yield
        return
    descriptor = lock_folder(path, argument)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(path)
        os.close(descriptor)


def rename(source: str, target: str, durable: bool = True) -> None:
    """Moves a file or folder to `target`, replacing a file atomically.

    Args:
        source: the file or folder.
        target: its new name.
        durable: whether `target` survives a power cut, during which it is either as before or
            complete. Otherwise, it is so only for a killed process, which is cheaper.
    """
    if is_remote(target):
        _gfile().rename(source, target, overwrite=True)
        return
    if not durable:
        os.replace(source, target)
        return
    sync(source)
    os.replace(source, target)
    sync_names(os.path.dirname(target.rstrip("/")))


def copy_file(source: str, target: str) -> None:
    """Makes `target` a hard link to `source`, or a copy where links are not possible.

    `target` is replaced atomically. Meant for files that are only ever replaced, never modified.
    """
    remote = is_remote(target) or is_remote(source)
    if not remote and os.path.exists(target) and os.path.samefile(source, target):
        return  # renaming a link over another link to the same file does nothing and leaves both
    with replacing(target) as partial:
        if remote:
            _gfile().copy(source, partial, overwrite=True)
            return
        try:
            os.link(source, partial)
        except OSError:  # another disk, or a file system without hard links
            shutil.copyfile(source, partial)


def remove(path: str) -> None:
    """Removes a file or folder if it exists."""
    if is_remote(path):
        if _gfile().exists(path):
            _gfile().rmtree(path) if _gfile().isdir(path) else _gfile().remove(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


@contextlib.contextmanager
def replacing(path: str, durable: bool = True) -> Iterator[str]:
    """Yields a temporary name to write to, and renames it to `path` if the block succeeds.

    Works for a file and for a folder, which must not exist yet. After an error, the temporary file
    or folder is removed; after a kill, by the next process that writes to the same folder.
    `durable` is as in `rename`.
    """
    partial = temporary_name(path)
    if not is_remote(path):
        remove_leftovers(os.path.dirname(path.rstrip("/")))
    try:
        yield partial
        rename(partial, path, durable)
    except OSError as error:
        remove(partial)
        if error.errno and error.filename is None:  # of a write, such as to a full disk
            raise OSError(error.errno, error.strerror, path) from None
        raise
    except BaseException:
        remove(partial)
        raise


def write_text(path: str, text: str, durable: bool = True) -> None:
    """Writes a UTF-8 text file atomically; `durable` is as in `rename`."""
    with replacing(path, durable) as partial, open_file(partial, "w") as file:
        file.write(text)


def write_bytes(path: str, content: bytes) -> None:
    """Writes a binary file atomically."""
    with replacing(path) as partial, open_file(partial, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def tensorflow_errors_as_os_errors() -> Iterator[None]:
    """Raises TensorFlow's file errors, such as a full disk, as `OSError`."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(tensorflow_reason(error)) from None


def tensorflow_reason(error: Exception) -> str:
    """Returns the message of a TensorFlow error without the description of graph nodes."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    lines = [line for line in lines if not line.startswith(_NO_REASONS)]
    if not lines:
        return type(error).__name__
    return _NODES.sub("", lines[0]).split(" [Op:")[0].strip()


# The nodes that a message begins with, such as `{{function_node f}} {{node x}}`.
_NODES = re.compile(r"^(\{\{.*?\}\}\s*)+")
# Prefixes of the lines that TensorFlow prints before the actual reason.
_NO_REASONS = ("Graph execution error", "Detected at node", "<stack traces", 'File "', "[[")
