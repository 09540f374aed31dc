"""What a process needs before and while it loads a framework, and why.

What the user has set stays as it is, so each can be prevented by setting it to another value.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator

# Tensors of a step are freed, and allocated again in the next one. glibc would return them to the
# system in between, which then zeroes every page: 44,000 page faults per step of a small model on
# JAX. Kept in large pages, there are about 500. `mallopt` has no large pages, and with its other
# settings alone, the aligned blocks of XLA fragment the heap (twice the memory); so do they in a
# single arena. Without large pages, the arenas of threads return their memory all the same.
KEPT_MEMORY = ":".join(
    (
        "glibc.malloc.hugetlb=1",
        "glibc.malloc.mmap_max=0",
        "glibc.malloc.trim_threshold=1099511627776",
    )
)


def enable_onednn() -> None:
    """Let TensorFlow, if it is not loaded yet, use oneDNN's operations and memory pool on x86.

    By itself, it does so only on processors with AVX-512. `TF_ENABLE_ONEDNN_OPTS=0` prevents it.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def restart_with_kept_memory() -> None:
    """Start this process again, under the same id, such that glibc keeps the memory it frees.

    glibc reads its settings only when a process starts. Nothing happens where `GLIBC_TUNABLES` is
    set, even to nothing, where there is no glibc, or in a process that does more than run a
    script, such as a notebook.
    """
    if "GLIBC_TUNABLES" in os.environ or platform.libc_ver()[0] != "glibc":
        return
    script = getattr(sys.modules["__main__"], "__file__", None)
    if not script or os.path.abspath(script) != os.path.abspath(sys.argv[0]):
        return
    os.environ["GLIBC_TUNABLES"] = KEPT_MEMORY
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Suppress what libraries print to standard error while they load, unless loading fails.

    TensorFlow's C++ core reports missing GPU drivers and the like before a log level can be set,
    about eight lines in front of every result. `TF_CPP_MIN_LOG_LEVEL=0` shows them.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


def cache_folder() -> str:
    """Return the folder that `ALBERT_TF_CACHE` names, or `~/.cache/albert_tf`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("ALBERT_TF_CACHE") or os.path.join(cache, "albert_tf")
    return os.path.expanduser(folder)
