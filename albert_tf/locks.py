"""Locks on folders, so that two programs do not write to the same one."""

import contextlib
import logging
import os
from collections.abc import Iterator

from filelock import lock_descriptor

from albert_tf.errors import InputError
from albert_tf.files import is_remote, make_folder

logger = logging.getLogger(__name__)


def lock_folder(path: str, argument: str = "path") -> int:
    """Lock a local folder for this process.

    The lock is on the folder itself, so it leaves no file behind and cannot be stale.

    Args:
        path: an existing folder.
        argument: the caller's name of `path`, for errors.

    Returns:
        A file descriptor; `os.close` releases the lock, and so does the end of the process. On
        file systems without locks, a warning is logged instead.

    Raises:
        InputError: If another process holds the lock.
    """
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

    Args:
        path: the folder.
        argument: the caller's name of `path`, for errors.

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
