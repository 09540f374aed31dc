"""Writes local and remote files: folders, locks, and atomic replacement."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping

from albert_tf.errors import InputError
from albert_tf.files.durability import remove_leftovers, sync, sync_names, temporary_name
from albert_tf.files.reading import open_file
from albert_tf.files.remote import is_read_only, is_remote, run, scheme_of, upload


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
        run(path, lambda system, name: system.makedirs(name, exist_ok=True))
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


def rename(source: str, target: str, durable: bool = True) -> None:
    """Moves a file, or a local folder, to `target`, replacing a file atomically.

    Args:
        source: the file or folder.
        target: its new name.
        durable: whether `target` survives a power cut, during which it is either as before or
            complete. Otherwise, it is so only for a killed process, which is cheaper.
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
        upload(source, target)
    elif os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        pass  # renaming a link over another link to the same file does nothing and leaves both
    else:
        with replacing(target) as partial:
            try:
                os.link(source, partial)
            except OSError:  # remote, another disk, or a file system without hard links
                with open_file(source, "rb") as read, open(partial, "wb") as written:
                    shutil.copyfileobj(read, written, 1 << 20)


def remove(path: str) -> None:
    """Removes a file or folder if it exists."""
    if is_remote(path):
        with contextlib.suppress(FileNotFoundError):
            run(path, lambda system, name: system.rm(name, recursive=True))
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


@contextlib.contextmanager
def replacing(path: str, durable: bool = True) -> Iterator[str]:
    """Yields a temporary name to write to, which becomes `path` if the block succeeds.

    Works for a file and for a folder, which must not exist yet. The temporary name is local: for a
    remote `path`, among the temporary files, and uploaded. After an error, the temporary file or
    folder is removed; after a kill, a local one by the next process that writes to the same folder.
    `durable` is as in `rename`.
    """
    with contextlib.ExitStack() as stack:
        partial = temporary_name(path)
        if is_remote(path):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="albert_tf-"))
            partial = os.path.join(folder, os.path.basename(path.rstrip("/")))
        else:
            remove_leftovers(os.path.dirname(path.rstrip("/")))
        try:
            yield partial
            if is_remote(path):
                upload(partial, path)
            else:
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
    write_bytes(path, text.encode(), durable)


def write_bytes(path: str, content: bytes, durable: bool = True) -> None:
    """Writes a binary file atomically; `durable` is as in `rename`."""
    if is_remote(path):
        run(path, lambda system, name: system.pipe_file(name, content))
        return
    with replacing(path, durable) as partial, open(partial, "wb") as file:
        file.write(content)
