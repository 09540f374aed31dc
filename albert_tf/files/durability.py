"""Local files that survive a kill and a power cut: temporary names, and syncing."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import platform
import re
import shutil

from albert_tf.files.remote import is_remote

logger = logging.getLogger(__name__)


def temporary_name(path: str) -> str:
    """Returns a name next to `path`, unique to this process, for an unfinished file or folder."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{_processes()}-{os.getpid()}.partial")


def _processes() -> str:
    """Names the processes that have different ids: those of a machine, or of a container."""
    namespace = "/proc/self/ns/pid"
    container = os.stat(namespace).st_ino if os.path.exists(namespace) else 0
    return f"{platform.node()}-{container}"


@functools.cache
def remove_leftovers(folder: str) -> None:
    """Removes what processes that have died left in a folder under temporary names."""
    pattern = re.compile(rf"\..+\.{re.escape(_processes())}-(\d+)\.partial")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or "."):
            found = pattern.fullmatch(name)
            if not (found and _is_dead(int(found[1]))):
                continue
            path = os.path.join(folder, name)
            logger.info("removing %s, which a killed process left", path)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)


def _is_dead(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def sync(path: str) -> None:
    """Waits until a file, or everything in a folder, is on the disk; does nothing to remote paths.

    Raises:
        OSError: if it could not be written.
    """
    if is_remote(path):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            sync(os.path.join(path, name))
    _sync_one(path)


def sync_names(folder: str) -> None:
    """Waits until the names of the files in a folder are on the disk; errors as of `sync`."""
    if not is_remote(folder):
        _sync_one(folder)


def _sync_one(path: str) -> None:
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot do so
            raise
    finally:
        os.close(descriptor)
