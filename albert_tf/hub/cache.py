"""The folder that keeps archives fetched by name, and the record of what was fetched."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

FOLDER_VARIABLE = "ALBERT_TF_CACHE"


def cache_folder() -> str:
    """The folder that `ALBERT_TF_CACHE` names, or `~/.cache/albert_tf`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.expanduser(os.environ.get(FOLDER_VARIABLE) or os.path.join(cache, "albert_tf"))


@contextlib.contextmanager
def one_at_a_time(path: str) -> Iterator[None]:
    """Waits until no other process is in this block for the same `path`."""
    folder, name = os.path.split(path)
    with open(os.path.join(folder, f".{name}.lock"), "w") as lock:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
