"""Writes local and remote files: folders and locks on them, copies, and atomic replacement.

Local files survive a kill and a power cut: they are written under temporary names, and synced.
"""

import contextlib
import errno
import functools
import logging
import os
import pathlib
import platform
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping

from albert_tf.errors import InputError
from albert_tf.files.compression import split_compression
from albert_tf.files.reading import files_in, open_file
from albert_tf.files.remote import is_read_only, is_remote, run, scheme_of

logger = logging.getLogger(__name__)

# The processes that have different ids: those of a machine, or of a container.
_NAMESPACE = "/proc/self/ns/pid"
_CONTAINER = os.stat(_NAMESPACE).st_ino if os.path.exists(_NAMESPACE) else 0
_PROCESSES = f"{platform.node()}-{_CONTAINER}"


def check_outputs(
    outputs: Mapping[str, Iterable[str]], inputs: Mapping[str, Iterable[str | None]]
) -> None:
    """Check that files can be written without replacing what is read, or one another.

    Args:
        outputs: The files to write, by the caller's name for them.
        inputs: The files to read, by the caller's name for them; None and "" are ignored.

    Raises:
        InputError: If a file is both, by whatever name or link, or two outputs, or an output is a
            folder or a device, or has the name of a compressed file.
    """
    written: dict[str, str] = {}
    read = {_identity(path): name for name, paths in inputs.items() for path in paths if path}
    for argument, paths in outputs.items():
        for path in paths:
            if os.path.exists(path) and not os.path.isfile(path):
                kind = "a folder" if os.path.isdir(path) else "a pipe or a device"
                raise InputError(f"`{argument}`: {path} is {kind}; name a file")
            if split_compression(path)[1]:
                raise InputError(f"`{argument}`={path}: would not be compressed; name a plain file")
            place = path if is_remote(path) else os.path.realpath(path)
            if place in written:
                raise InputError(
                    f"`{argument}`: {path} is also written, as `{written[place]}` or next to it; "
                    "choose another name"
                )
            written[place] = argument
            if also := read.get(_identity(path)):
                raise InputError(
                    f"`{argument}`: {path} is also read, as `{also}`; choose another name"
                )


def _identity(path: str) -> Hashable:
    """Return what all names of a file share: where it is on the disk, or would be."""
    try:
        status = os.stat(path)
        return status.st_dev, status.st_ino
    except OSError:
        return path if is_remote(path) else os.path.realpath(path)


def make_folder(path: str, argument: str = "path") -> None:
    """Create the folder `path`, "" for the current one, if it does not exist.

    Raises:
        InputError: If the folder cannot be created or written to; `argument` is the caller's name
            of `path`.
    """
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
        reason = f"cannot create the folder {path!r}: {error.strerror}"
        if file := next(filter(os.path.isfile, (folder, *folder.parents)), None):
            reason = f"{str(file)!r} is a file; name a folder"
        raise InputError(f"`{argument}`: {reason}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"`{argument}`: no permission to write to the folder {path!r}")


def lock_folder(path: str, argument: str = "path") -> int:
    """Lock a local folder, which must exist, for this process.

    The lock is on the folder itself, so it leaves no file behind and cannot be stale.

    Returns:
        A file descriptor; `os.close` releases the lock, and so does the end of the process. On
        file systems without locks, a warning is logged instead.

    Raises:
        InputError: If another process holds the lock.
    """
    from filelock import lock_descriptor  # slow to load

    descriptor = os.open(path, os.O_RDONLY)
    try:
        if not lock_descriptor(descriptor, blocking=False):
            os.close(descriptor)
            raise InputError(f"`{argument}`: another process is already writing to {path}")
    except OSError as error:  # some network file systems do not support locks on folders
        logger.warning(
            "%s cannot be locked (%s); do not run a second program that writes to it",
            path,
            error.strerror,
        )
    return descriptor


@contextlib.contextmanager
def folder_of_one(path: str, argument: str = "path") -> Iterator[None]:
    """Create the folder `path` if it does not exist and lock it for the duration of the block.

    A folder that is still empty at the end, because the work never began, is removed. Remote
    folders are created but not locked.

    Raises:
        InputError: If the folder cannot be created or written to, or another process holds the
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


def sync(path: str) -> None:
    """Wait until a local file, or everything in a local folder, is on the disk."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            sync(os.path.join(path, name))
    sync_names(path)


def sync_names(path: str) -> None:
    """Wait until a local file, or of a local folder the names in it, is on the disk."""
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
    """Move a file, or a local folder, to `target`, replacing a file atomically.

    If `durable`, `target` is as before or complete after a power cut; otherwise, only after a kill,
    which is cheaper.
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
    """Make `target`, atomically, a hard link to `source`, or a copy where links are impossible.

    Meant for files that are only ever replaced, never modified.
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
    """Upload a local file or folder, of which those files come last that make it look complete.

    These are small and not deep, such as a config or a list of the others.
    """
    if not os.path.isdir(source):
        run(target, lambda system, name: system.put_file(source, name))
        return
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(source) for name in names]
    for path in sorted(paths, key=lambda path: (-path.count(os.sep), -os.path.getsize(path))):
        _upload(path, f"{target.rstrip('/')}/{os.path.relpath(path, source)}")


def remove(path: str) -> None:
    """Remove a file or folder if it exists."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if is_remote(path):
            run(path, lambda system, name: system.rm(name, recursive=True))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


@contextlib.contextmanager
def replacing(path: str, durable: bool = True) -> Iterator[str]:
    """Yield a local temporary name for a file or a new folder, which becomes `path` on success.

    After an error, the temporary file or folder is removed; after a kill, by the next process that
    writes to the same local folder. `durable` is as in `rename`.
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
            if error.errno and error.filename in (None, partial):  # not for users to see
                raise OSError(error.errno, error.strerror, path) from None
            raise


def temporary_name(path: str) -> str:
    """Return a name next to `path`, unique to this process, for an unfinished file or folder."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{_PROCESSES}-{os.getpid()}.partial")


@functools.cache
def _remove_leftovers(folder: str) -> None:
    """Remove what processes that have died left in a folder under temporary names."""
    with contextlib.suppress(OSError):
        for path in files_in(folder, f".*.{_PROCESSES}-*.partial"):
            try:
                os.kill(int(path.rpartition(f"{_PROCESSES}-")[2].removesuffix(".partial")), 0)
            except ProcessLookupError:
                logger.info("removing %s, which a killed process left", path)
                remove(path)
            except (OSError, ValueError):  # another user's process; another machine's
                continue


def write_text(path: str, text: str, durable: bool = True) -> None:
    """Write a UTF-8 text file atomically; `durable` is as in `rename`."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: str, content: bytes, durable: bool = True) -> None:
    """Write a binary file atomically; `durable` is as in `rename`."""
    with replacing(path, durable) as partial, open(partial, "wb") as file:
        file.write(content)


def write_files(folder: str, contents: Mapping[str, str | bytes]) -> None:
    """Write files into a folder, which must exist; `contents` are by name."""
    for name, content in contents.items():
        path = os.path.join(folder, name)
        write_bytes(path, content.encode() if isinstance(content, str) else content)


def write_for(owner: object, name: str, content: bytes) -> str:
    """Write a temporary file, which lives as long as its owner, and return its path."""
    folder = tempfile.mkdtemp()
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, name)
    write_bytes(path, content, durable=False)
    return path
