"""Writes local and remote files: folders, copies, and atomic replacement.

Local files survive a kill and a power cut: they are written under temporary names, and synced.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import logging
import os
import pathlib
import platform
import re
import shutil
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping

from albert_tf.errors import InputError
from albert_tf.files.reading import open_file
from albert_tf.files.remote import is_read_only, is_remote, run, scheme_of

logger = logging.getLogger(__name__)

# The processes that have different ids: those of a machine, or of a container.
_NAMESPACE = "/proc/self/ns/pid"
_CONTAINER = os.stat(_NAMESPACE).st_ino if os.path.exists(_NAMESPACE) else 0
_PROCESSES = f"{platform.node()}-{_CONTAINER}"


def check_outputs(
    outputs: Mapping[str, Iterable[str]], inputs: Mapping[str, Iterable[str | None]]
) -> None:
    """Checks that files can be written without replacing what is read.

    Args:
        outputs: the files to write, by the caller's name for them.
        inputs: the files to read, by the caller's name for them; None and "" are ignored.

    Raises:
        InputError: a file is both, by whatever name or link, or an output is a folder or has a name
            that looks like a glob.
    """
    read = {_identity(path): name for name, paths in inputs.items() for path in paths if path}
    for argument, paths in outputs.items():
        for path in paths:
            _check_name(path, argument)
            if os.path.isdir(path):
                raise InputError(f"`{argument}`: {path} is a folder; name a file")
            if also := read.get(_identity(path)):
                raise InputError(
                    f"`{argument}`: {path} is also read, as `{also}`; choose another name"
                )


def _identity(path: str) -> Hashable:
    """What all names of a file have in common: where it is on the disk, or would be."""
    try:
        status = os.stat(path)
        return status.st_dev, status.st_ino
    except OSError:
        return path if is_remote(path) else os.path.realpath(path)


def _check_name(path: str, argument: str) -> None:
    """Checks that a path to be written to does not look like a glob, which would not find it."""
    if glob.has_magic(path):
        raise InputError(
            f"`{argument}`={path}: contains *, ? or [, which stand for other characters where "
            "files are looked for; choose a name without them"
        )


def make_folder(path: str, argument: str = "path") -> None:
    """Creates the folder `path`, "" for the current one, if it does not exist.

    Raises:
        InputError: the folder cannot be created or written to, or its name looks like a glob;
            `argument` is the caller's name of `path`.
    """
    _check_name(path, argument)
    if is_read_only(path):
        raise InputError(f"`{argument}`: {path} can only be read; name a local folder or gs://...")
    if is_remote(path):
        run(path, lambda system, name: system.makedirs(name, exist_ok=True))
        return
    folder = pathlib.Path(path)
    created = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in created:
            sync_names(str(each.parent))
    except OSError as error:
        raise InputError(
            f"`{argument}`: cannot create the folder {path!r}: {error.strerror}"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"`{argument}`: no permission to write to the folder {path!r}")


def sync(path: str) -> None:
    """Waits until a file, or everything in a folder, is on the disk; not for remote ones."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            sync(os.path.join(path, name))
    sync_names(path)


def sync_names(path: str) -> None:
    """As `sync`, but of a folder only the names in it."""
    if is_remote(path):
        return
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot do so
            raise
    finally:
        os.close(descriptor)


def rename(source: str, target: str, durable: bool = True) -> None:
    """Moves a file, or a local folder, to `target`, replacing a file atomically.

    If `durable`, `target` survives a power cut, during which it is either as before or complete.
    Otherwise, it is so only for a killed process, which is cheaper.
    """
    if is_remote(source) or is_remote(target):
        copy_file(source, target)
        remove(source)
        return
    if durable:
        sync(source)
    os.replace(source, target)
    if durable:
        sync_names(os.path.dirname(target.rstrip("/")))


def copy_file(source: str, target: str) -> None:
    """Makes `target` a hard link to `source`, or a copy where links are not possible.

    `target` is replaced atomically. Meant for files that are only ever replaced, never modified.
    """
    if is_remote(source) and scheme_of(source) == scheme_of(target):
        run(target, lambda system, name: system.cp_file(system._strip_protocol(source), name))
    elif is_remote(target) and not is_remote(source):
        _upload(source, target)
    else:
        with replacing(target) as partial:
            try:
                os.link(source, partial)
            except OSError:  # remote, another disk, or a file system without hard links
                with open_file(source, "rb") as read, open(partial, "wb") as written:
                    shutil.copyfileobj(read, written, 1 << 20)


def _upload(source: str, target: str) -> None:
    """Uploads a local file, or a folder, whose names of files in it are visible one by one.

    The largest files of the deepest folders come first, so that those that make a folder look
    complete, such as a config or a list, come last.
    """
    if not os.path.isdir(source):
        run(target, lambda system, name: system.put_file(source, name))
        return
    paths = [os.path.join(place, name) for place, _, names in os.walk(source) for name in names]
    for path in sorted(paths, key=lambda path: (-path.count(os.sep), -os.path.getsize(path))):
        _upload(path, f"{target.rstrip('/')}/{os.path.relpath(path, source)}")


def remove(path: str) -> None:
    """Removes a file or folder if it exists."""
    with contextlib.suppress(FileNotFoundError):
        if is_remote(path):
            run(path, lambda system, name: system.rm(name, recursive=True))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


@contextlib.contextmanager
def replacing(path: str, durable: bool = True) -> Iterator[str]:
    """Yields a temporary name to write to, which becomes `path` if the block succeeds.

    Works for a file and for a folder, which must not exist yet. The temporary name is local: for a
    remote `path`, among the temporary files, and uploaded. After an error, the temporary file or
    folder is removed; after a kill, a local one by the next process that writes to the same folder.
    `durable` is as in `rename`.
    """
    folder, name = os.path.split(path.rstrip("/"))
    with contextlib.ExitStack() as stack:
        if is_remote(path):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="albert_tf-"))
            partial = os.path.join(folder, name)
        else:
            _remove_leftovers(folder)
            partial = temporary_name(path)
        # Also after success: renaming to another link to the same file does nothing.
        stack.callback(remove, partial)
        try:
            yield partial
            rename(partial, path, durable)
        except OSError as error:
            if error.errno and error.filename is None:  # of a write, such as to a full disk
                raise OSError(error.errno, error.strerror, path) from None
            raise


def temporary_name(path: str) -> str:
    """Returns a name next to `path`, unique to this process, for an unfinished file or folder."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{_PROCESSES}-{os.getpid()}.partial")


@functools.cache
def _remove_leftovers(folder: str) -> None:
    """Removes what processes that have died left in a folder under temporary names."""
    pattern = re.compile(rf"\..+\.{re.escape(_PROCESSES)}-(\d+)\.partial")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or "."):
            if found := pattern.fullmatch(name):
                try:
                    os.kill(int(found[1]), 0)
                except ProcessLookupError:
                    path = os.path.join(folder, name)
                    logger.info("removing %s, which a killed process left", path)
                    remove(path)
                except OSError:  # a process of another user
                    continue


def write_text(path: str, text: str, durable: bool = True) -> None:
    """Writes a UTF-8 text file atomically; `durable` is as in `rename`."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: str, content: bytes, durable: bool = True) -> None:
    """Writes a binary file atomically; `durable` is as in `rename`."""
    with replacing(path, durable) as partial, open(partial, "wb") as file:
        file.write(content)
