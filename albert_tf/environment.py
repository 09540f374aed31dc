"""What a process needs before and while it loads a framework or compiles a loop, and why.

What the user has set stays as it is, so each can be prevented by setting it to another value.

Ctrl-C ends a command that is loading at once: a `KeyboardInterrupt` would be a traceback out of the
middle of an import or, where an extension module loads, another error or a crash.
"""

import contextlib
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator

# Set while a process that starts itself again blocks Ctrl-C.
_RESTARTED = "_ALBERT_TF_RESTARTED"
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_SCRIPTS = ("run_", "export_saved_model.py", "convert_checkpoint.py")
_program = (sys.argv or [""])[0]
_folder, _name = os.path.split(os.path.abspath(_program))
# `python -m` imports the package of a module before it looks for the module.
_IS_COMMAND = (
    _program == "-m"
    or (_folder == _ROOT and _name.startswith(_SCRIPTS))
    or (_name.startswith("albert-") and "." not in _name)
)

_console = 2

# Tensors of a step are freed, and allocated again in the next one. glibc would return them to the
# system in between, which then zeroes every page: 44,000 page faults per step of a small model on
# JAX. Kept in large pages, there are about 500. `mallopt` has no large pages, and with its other
# settings alone, the aligned blocks of XLA fragment the heap (twice the memory); so do they in a
# single arena. Without large pages, the arenas of threads return their memory all the same.
KEPT_MEMORY = (
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776"
)


def exit_when_interrupted(console: int = 2) -> None:
    """Let Ctrl-C end this process at once if it is a command; other programs stay as they are.

    `console` is the file descriptor of standard error.
    """
    global _console
    _console = console
    if _IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)
    if os.environ.pop(_RESTARTED, None):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_when_interrupted() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: object) -> None:
    name = os.path.basename(sys.argv[0].removesuffix("/__main__.py"))
    os.write(_console, f"{name}: interrupted\n".encode())
    os._exit(128 + number)


def enable_onednn() -> None:
    """Let TensorFlow, if it is not loaded yet, use oneDNN's operations and memory pool on x86.

    By itself, it does so only on processors with AVX-512. `TF_ENABLE_ONEDNN_OPTS=0` prevents it.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def restart_with_kept_memory() -> None:
    """Start this process again, under the same id, such that glibc keeps the memory it frees.

    glibc reads its settings only when a process starts. Nothing happens without it; see `_restart`.
    """
    if platform.libc_ver()[0] == "glibc":
        _restart("GLIBC_TUNABLES", KEPT_MEMORY)


def restart_in_utf8() -> None:
    """Start this process again in Python's UTF-8 mode if it takes paths for ASCII, as of LANG=C."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ.pop("PYTHONUTF8", None)
        _restart("PYTHONUTF8", "1")


def _restart(variable: str, value: str) -> None:
    """Start this process again with an environment variable, unless that is set, even to nothing.

    Nothing happens in a process that does more than run a script, such as a notebook.
    """
    script = getattr(sys.modules["__main__"], "__file__", None)
    if variable in os.environ or not script:
        return
    if os.path.abspath(script) == os.path.abspath(sys.argv[0]):
        os.environ[variable] = value
        # Ctrl-C waits until it ends the new process in good order.
        os.environ[_RESTARTED] = "1"
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # An option of Python would win over PYTHONUTF8.
        options = {"utf8=0": "utf8=1", "-Xutf8=0": "-Xutf8=1"}
        words = [options.get(word, word) for word in sys.orig_argv[1:]]
        os.execv(sys.executable, [sys.executable, *words])


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Suppress what libraries print to standard error while they load, unless loading fails.

    TensorFlow's C++ core reports missing GPU drivers and the like before a log level can be set,
    about eight lines in front of every result. `TF_CPP_MIN_LOG_LEVEL=0` shows them.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    import tempfile

    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        exit_when_interrupted(original)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            raise_when_interrupted()
            os.dup2(original, 2)
            os.close(original)


def cache_folder() -> str:
    """Return the folder that `ALBERT_TF_CACHE` names, or `~/.cache/albert_tf`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.expanduser(os.environ.get("ALBERT_TF_CACHE") or f"{cache}/albert_tf")


def version() -> str:
    """Return the version of this package, of which a source tree may not be installed."""
    import importlib.metadata
    import tomllib

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("albert-tf")
    with open(os.path.join(_ROOT, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["project"]["version"]


def compiled(function: Callable) -> Callable:
    """Compile a function with numba, cached on disk if the cache folder is writable."""
    import numba  # slow to load

    try:
        return numba.njit(function, cache=True, nogil=True)
    except RuntimeError:  # no writable folder for the cache: compile in each process
        return numba.njit(function, nogil=True)
