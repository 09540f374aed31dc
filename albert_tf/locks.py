"""Locks on folders, so that two programs do not write to the same one."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.files import is_remote, make_folder

logger = logging.getLogger(__name__)


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
