"""Fixtures that every test may use."""

import contextlib
import fcntl
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from absl import flags
from hypothesis import HealthCheck, settings

from albert_tf.engines.startup import without_garbage_collection
from albert_tf.environment import KEPT_MEMORY
from albert_tf.errors import InputError
from albert_tf.files import remote
from albert_tf.logs import logs_on_console
from albert_tf.options import define_flags, from_flags
from albert_tf.original_flags import define_original_flags

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Commands that tests start need not start again for it.
os.environ.setdefault("GLIBC_TUNABLES", KEPT_MEMORY)
# CUDA builds of PyTorch load it, and its LLVM and TensorFlow's crash in one process.
sys.modules["triton"] = None

# nohup lets processes ignore it, and tests send it.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What the original's code and Hugging Face's computed, as arrays.
GOLDEN = ROOT / "tests" / "golden"

PEERS = ("jax", "torch", "transformers")

# For processes that compute on JAX: it looks for no TPU and compiles in less time, which tests
# spend most of their time on. Not XLA_FLAGS: a version that lacks one of them ends the process.
JAX_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
KERAS_ON_JAX = {"KERAS_BACKEND": "jax", **JAX_ENVIRONMENT}


# Files whose tests take longest: started last, they would leave the other workers idle.
LONGEST = (
    *("test_jax_backend.py", "test_jax_engine.py", "test_workers.py", "test_path_spellings.py"),
    *("test_buckets.py", "test_notebooks.py", "test_extending.py", "test_step.py"),
)

# Random inputs are the same in every run: no run fails by chance. `make test-random` draws others.
EXAMPLES = int(os.environ.get("RANDOM_EXAMPLES", "0"))
settings.register_profile(
    "project", max_examples=EXAMPLES or 50, derandomize=not EXAMPLES, deadline=None, database=None,
    suppress_health_check=list(HealthCheck), print_blob=bool(EXAMPLES),
)  # fmt: skip
settings.load_profile("project")


def random_inputs(count: int) -> settings:
    """Return settings of a test of so many random inputs, unless `make test-random` says more."""
    return settings(max_examples=EXAMPLES or count)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import all test files without garbage collection, a third of the time that they take."""
    with without_garbage_collection():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def heed_ctrl_c() -> None:
    """For `preexec_fn`: tests may run in a shell's background job, or after nohup."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def run_python(*words: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the repository's root, with more variables of the environment."""
    command, environment = [sys.executable, *map(str, words)], {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


_COMMANDS = """
import importlib, json, os, runpy, sys
commands, folder, *modules = sys.argv[1:]
for name in modules:
    importlib.import_module(name)
for number, words in enumerate(json.loads(commands)):
    if not (process := os.fork()):
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{number}.{name}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
os._exit(0)  # nothing is printed at the exit of this one
"""


def run_commands(
    commands: list[list[str]], folder: pathlib.Path, *modules: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run scripts in copies of one process, for Python takes longer to start than they take.

    Args:
        commands: path and arguments of each.
        folder: where number N writes N.out and N.err; the exit codes are printed.
        modules: what all of them import.
    """
    return run_python("-c", _COMMANDS, json.dumps(commands), folder, *modules, **variables)


def parsed(options_class: type, *words: str) -> Any:
    """Return the options that the words of a command, its name first, come to."""
    values = flags.FlagValues()
    define_flags(options_class, values)
    define_original_flags(getattr(options_class, "original", {}), values)
    assert values([*words]) == [words[0]]
    return from_flags(options_class, values)


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the message, in one line, of a call that must be refused."""
    with pytest.raises(InputError) as error:
        call(*arguments, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


def free_addresses(count: int) -> tuple[str, ...]:
    """As many addresses, each with a port of its own that is free now."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return tuple(f"127.0.0.1:{server.getsockname()[1]}" for server in servers)


def slow(*values: Any) -> list:
    """Return parameters that only `make test-all` runs."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]


def once(folder: pathlib.Path, make: Callable[[], None]) -> pathlib.Path:
    """Return a folder that the first of the parallel workers makes and the others wait for.

    Args:
        folder: below `shared_folder`.
        make: fills the folder, which exists when it is called.
    """
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not pathlib.Path(f"{folder}.made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make()
            pathlib.Path(f"{folder}.made").touch()
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_folders(shared_folder: pathlib.Path) -> Iterator[None]:
    """Share compiled programs among the commands that tests start, not with the user's.

    What a killed command leaves in the temporary folder goes with the other files of the run.
    """
    temporary = shared_folder / "tmp"
    temporary.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALBERT_TF_CACHE", str(shared_folder / "cache"))
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder that all parallel workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(autouse=True)
def _console() -> Iterator[None]:
    """Show log messages as commands do, so that `capsys` sees them in tests of the library."""
    with logs_on_console("albert_tf", "data_prep", propagate=True):
        yield


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a server with `gs://bucket` for this process, whose outages are over quickly."""
    fsspec = pytest.importorskip("fsspec")
    from tests.support.bucket import Bucket  # skips the test without gcsfs

    for name, seconds in (("PATIENCE", 0.3), ("SILENCE", 0.05), ("LONGEST_PAUSE", 0.1)):
        monkeypatch.setattr(remote, name, seconds)
    monkeypatch.setattr(remote, "FIRST_PAUSE", 0.02)
    with Bucket() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.address)
        yield server
    for kind in ("gs", "gcs"):
        fsspec.get_filesystem_class(kind).clear_instance_cache()


@pytest.fixture(scope="session")
def peers() -> str:
    """Return this Python, to start processes that import PyTorch, transformers or JAX.

    The test is skipped where they are not installed.
    """
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (the extra `peers`)")
    return sys.executable


@pytest.fixture(scope="session")
def shared() -> Callable[[str], pathlib.Path]:
    """Find reference data next to the repository; the test is skipped without it."""

    def find(relative: str) -> pathlib.Path:
        path = ROOT.parent / "shared" / relative
        if not path.exists():
            pytest.skip(f"reference data ../shared/{relative} does not exist")
        return path

    return find


@pytest.fixture
def op_by_op() -> Iterator[None]:
    """Compute without graphs, whose tracing takes most of the time of small models."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
