"""What makes commands start quickly; programs and notebooks that import this package do not use it.

Importing Keras costs a command several seconds for libraries that it never uses, and compiling the
steps of a small model on JAX takes longer than anything else before the first step.
"""

import contextlib
import gc
import hashlib
import importlib
import os
import platform
import sys
import warnings
from collections.abc import Iterator, Sequence

from albert_tf.engines.registry import ENGINES
from albert_tf.environment import cache_folder

# `ALBERT_TF_COMPILATION_CACHE=off` compiles everything in each process.
CACHE_VARIABLE = "ALBERT_TF_COMPILATION_CACHE"
# Programs of a small model take 0.5 MB; the least recently used make room for new ones.
CACHE_BYTES = 256 * 2**20

# Keras and TensorFlow import these where they are installed, and do without where they are not.
_OPTIONAL = ("IPython", "matplotlib", "sklearn")


def load_keras() -> None:
    """Import Keras with the backend in `KERAS_BACKEND`, as fast as possible; for commands only.

    Keras's wrappers of scikit-learn and its image galleries are not available in this process, and
    on JAX, compiled programs are kept on disk, for the next process (see `keep_compiled_programs`).
    """
    backend = os.environ.get("KERAS_BACKEND", "")
    if backend == "jax":
        # For etils, which opens JAX's files: it decides once whether gs:// loads TensorFlow.
        os.environ.setdefault("EPATH_USE_TF", "false")
        keep_compiled_programs()
    unused = ENGINES[backend].unused if backend in ENGINES else ()
    with _not_installed((*_OPTIONAL, *unused)), without_garbage_collection():
        importlib.import_module("keras")


@contextlib.contextmanager
def _not_installed(packages: Sequence[str]) -> Iterator[None]:
    """Let imports of these packages, unless they are loaded, fail as if they were missing."""
    hidden = [name for name in packages if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python marks a missing module
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Leave what is created here, which lives as long as the process, out of all collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_compiled_programs() -> None:
    """Make JAX, which must not be loaded yet, keep compiled programs on disk for other processes.

    They are in the folder `compiled` of `cache_folder`, at most `CACHE_BYTES` for each kind of
    processor. Without a writable folder, or with `ALBERT_TF_COMPILATION_CACHE=off`, nothing is
    kept. A folder that the user gives JAX is left to JAX.
    """
    if os.environ.get(CACHE_VARIABLE) == "off" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = os.path.join(cache_folder(), "compiled", f"jax-{_processor()}")
    try:
        os.makedirs(folder, exist_ok=True)
        _remove_incomplete(folder)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    settings = {
        "JAX_COMPILATION_CACHE_DIR": folder,
        # With a limit, JAX locks the folder, so that processes can share it.
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(CACHE_BYTES),
        # Initializers are many programs that take a few milliseconds each.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    # A damaged program, or one that another process removes, is compiled as without a cache.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")


def _processor() -> str:
    """Name what compiled programs need from a processor, which XLA's own key need not contain."""
    described = [platform.machine()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        described += sorted({line for line in file if line.startswith(("flags", "Features"))})
    return hashlib.sha256("".join(described).encode()).hexdigest()[:16]


def _remove_incomplete(folder: str) -> None:
    """Remove programs that a process was killed while writing: their time of use is missing.

    JAX would never replace them, and could not remove others to stay below its limit.
    """
    names = set(os.listdir(folder))
    for name in names:
        if name.endswith("-cache") and name.removesuffix("-cache") + "-atime" not in names:
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, name))
