"""Checkpoints of the JAX engine: folders that orbax writes, listed in `checkpoints.json`.

`checksums.txt` in each contains the size and CRC-32C of every file: orbax stores none for the
values. It is what makes a checkpoint complete.

Values are read with tensorstore, which orbax itself writes with, so that reading starts no JAX
devices: in a process on TensorFlow, JAX would take most of a GPU's memory.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import math
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np

from albert_tf import files
from albert_tf.checkpoints.folder import NAME, CheckpointFolder, CheckpointList, step_of
from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.weights import Tensor

_CHECKSUMS = "checksums.txt"
_METADATA = "_METADATA"
_UNFINISHED = ".unfinished"
# What describes an array, and the driver of tensorstore that reads it.
_DRIVERS = {".zarray": "zarr", "zarr.json": "zarr3"}


class OrbaxFolder(CheckpointFolder):
    """Checkpoints that orbax writes."""

    engine = "jax"
    weights_format = "jax"
    list_file = "checkpoints.json"
    endings = (f"/{_CHECKSUMS}", f"/{_METADATA}")
    readers = 16  # each waits for the disk, or for a bucket's answer

    def _paths(self) -> list[str]:
        found = files.files_in(self.path, f"{NAME}-*")
        return [path for path in found if step_of(path) >= 0 and files.is_folder(path)]

    def unfinished(self, name: str = f"{NAME}-*") -> list[str]:
        if not files.is_remote(self.path):
            # Until it is complete, orbax adds an ending of its own.
            return files.files_in(self.path, f".{name}{_UNFINISHED}*")
        return [path for path in self.all() if not files.exists(f"{path}/{_CHECKSUMS}")]

    def remove(self, path: str) -> None:
        if files.exists(path) and not files.is_remote(path):
            removed = _unfinished_path(f"{path}.removed")
            files.remove(removed)
            os.rename(path, removed)
            path = removed
        files.remove(path)

    def _copy(self, path: str, target: str) -> None:
        if is_remote := files.is_remote(target):
            files.remove(target)
        with contextlib.nullcontext(target) if is_remote else files.replacing(target) as partial:
            for name in sorted(files.sizes(path), key=lambda name: name == _CHECKSUMS):
                files.make_folder(os.path.dirname(f"{partial}/{name}"), "output_dir")
                files.copy_file(f"{path}/{name}", f"{partial}/{name}")
            if not is_remote:
                self.remove(target)

    def _parse(self, text: str) -> CheckpointList | None:
        found = files.parse_json(text, self.list_file, CheckpointList)
        # The list decides what is removed: names that are not of checkpoints come from damage.
        names = (found.latest, *found.saved)
        return found if all(step_of(name) >= 0 and "/" not in name for name in names) else None

    def _text(self, listed: CheckpointList) -> str:
        return json.dumps({**dataclasses.asdict(listed), "engine": self.engine}, indent=2) + "\n"

    def damage_of(self, path: str) -> str | None:
        try:
            if files.is_remote(path):
                return _damage_of(path)
            found = {name: files.file_identity(f"{path}/{name}") for name in files.sizes(path)}
            # So soon after a change, the next one may leave the time as it is.
            is_new = any(time.time_ns() - changed < 1e9 for _, changed in found.values())
            return (_damage_of if is_new else _remembered_damage)(path, str(found))
        except OSError as error:
            return f"{error.filename or path}: {error.strerror or error}"

    def _open(self, path: str) -> dict[str, Tensor]:
        if reason := self.damage_of(path):
            raise InputError(f"{path}: cannot be read ({reason})")
        return {name.replace(".", "/", 1): each for name, each in _open_values(path).items()}

    def start_saving(
        self, path: str, tree: Mapping[str, Any], is_chief: bool = True
    ) -> Callable[[], None]:
        target = _unfinished_path(path)
        if not files.is_remote(path):  # orbax takes the names of folders for patterns, too
            target = files.without_magic(os.path.abspath(target))
        elif is_chief:
            files.remove(path)  # orbax would do so with another client of Google's
        # It would store an empty dictionary as a value.
        state = {kind: values for kind, values in tree.items() if kind == "step" or values}
        with _writing(path):
            # On return, all values are in host memory: the arrays can be donated right away.
            _checkpointer().save(target, args=import_orbax().args.PyTreeSave(state), force=True)

        def finish() -> None:
            with _writing(path):
                _checkpointer().wait_until_finished()
            if is_chief:
                complete(path)

        return finish


def _unfinished_path(path: str) -> str:
    """Return where orbax writes a checkpoint until it is complete.

    Remote files cannot be renamed in one step: checksums, written last, complete a checkpoint.
    """
    folder, name = os.path.split(path)
    return path if files.is_remote(path) else os.path.join(folder, f".{name}{_UNFINISHED}")


@functools.cache
def import_orbax() -> types.ModuleType:
    """`orbax.checkpoint`, without what it logs: dozens of lines for every checkpoint.

    Raises:
        InputError: If it is not installed.
    """
    # Otherwise, gs:// loads TensorFlow wherever it is installed.
    os.environ.setdefault("EPATH_USE_TF", "false")
    try:
        import orbax.checkpoint
    except ImportError:
        raise _not_installed("orbax-checkpoint") from None
    logging.getLogger("absl").addFilter(
        lambda record: f"{os.sep}orbax{os.sep}" not in record.pathname
    )
    # Further writes fail after the first, whose error orbax raises; theirs are never retrieved.
    logging.getLogger("asyncio").addFilter(
        lambda record: not (record.exc_info and _is_of_tensorstore(record.exc_info[1]))
    )
    report = sys.unraisablehook

    def report_others(unraisable: "sys.UnraisableHookArgs") -> None:
        # After the first write that fails, orbax closes the event loop that the others report to.
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = report_others
    return orbax.checkpoint


def _not_installed(package: str) -> InputError:
    return InputError(
        f"{package}, which checkpoints of engine jax need, is not installed; "
        "pip install 'albert-tf[jax]'"
    )


@functools.cache
def _checkpointer() -> Any:
    """Return what writes checkpoints, uncompressed.

    Compression takes longer than writing and saves 7 % of the size, as weights look random.
    """
    import keras

    if keras.backend.backend() != "jax":
        import jax

        # Orbax asks JAX which process this is. JAX must not start the accelerators for that.
        jax.config.update("jax_platforms", "cpu")
    orbax = import_orbax()
    return orbax.AsyncCheckpointer(orbax.PyTreeCheckpointHandler(use_compression=False))


def complete(path: str) -> None:
    """Give a checkpoint that orbax has written checksums and its name, and sync it."""
    unfinished = _unfinished_path(path)
    write_checksums(unfinished)
    if unfinished != path:
        OrbaxFolder(os.path.dirname(path)).remove(path)
        files.rename(unfinished, path)


def write_checksums(path: str) -> None:
    """Write the sizes and CRC-32Cs of all files of a checkpoint into it."""
    found = {name: sums for name, sums in files.checksums(path).items() if name != _CHECKSUMS}
    text = "".join(f"{crc:08x} {size} {name}\n" for name, (size, crc) in found.items())
    files.write_text(os.path.join(path, _CHECKSUMS), text + _crc_line(text))


def _crc_line(text: str) -> str:
    return f"{google_crc32c.value(text.encode()):08x}\n"


def _damage_of(path: str, identity: str = "") -> str | None:
    if not files.exists(f"{path}/{_CHECKSUMS}"):
        return f"{_CHECKSUMS} is missing"
    try:
        *lines, crc = files.read_text(f"{path}/{_CHECKSUMS}").splitlines(keepends=True) or [""]
        if crc != _crc_line("".join(lines)):
            return f"{_CHECKSUMS} is damaged"
    except InputError:  # not UTF-8
        return f"{_CHECKSUMS} is damaged"
    found = files.checksums(path)
    for line in lines:
        recorded, size, name = line.rstrip("\n").split(" ", 2)
        if name not in found:
            return f"{name} is missing"
        if found[name][0] != int(size):
            return f"{name} has {found[name][0]} bytes instead of {size}"
        if found[name][1] != int(recorded, 16):
            return f"the checksum of {name} does not match"
    return None


# A start looks at a checkpoint several times: its bytes are read once, unless a file changes.
_remembered_damage = functools.lru_cache(maxsize=64)(_damage_of)


def _open_values(path: str) -> dict[str, Tensor]:
    """Return the values by name, such as `step` and `params.bert/pooler/dense/bias`; read none."""
    try:
        import tensorstore
    except ImportError:
        raise _not_installed("tensorstore") from None

    base = {"driver": "file", "path": os.path.abspath(path) + "/"}
    if files.is_remote(path):
        scheme, _, place = path.partition("://")
        if scheme != "gs":
            raise InputError(
                f"{path}: checkpoints of engine jax are read from local folders and gs://"
            )
        bucket, _, place = place.partition("/")
        base = {"driver": "gcs", "bucket": bucket, "path": f"{place}/"}
    index = {"driver": "ocdbt", "base": base}
    context = tensorstore.Context()  # shared, so that not every value reads the index again
    opened = {}
    with _reading(path):
        keys = tensorstore.KvStore.open(index, context=context).result().list().result()
        for name, _, file in (key.decode().rpartition("/") for key in keys):
            if driver := _DRIVERS.get(file):
                spec = {"driver": driver, "kvstore": {**index, "path": name}}
                opened[name] = tensorstore.open(spec, read=True, context=context)
        stores = {name: future.result() for name, future in opened.items()}
    size = sum(files.sizes(path).values())

    def read(name: str) -> np.ndarray:
        store = stores[name]
        # Nothing is compressed.
        if math.prod(store.shape) * store.dtype.numpy_dtype.itemsize > size:
            raise InputError(f"{path}: {name} cannot be read (larger than the checkpoint)")
        with _reading(path, f"{name} "):
            return store.read().result()

    shapes = {name: tuple(store.shape) for name, store in stores.items()}
    return {n: Tensor(n, each, each, functools.partial(read, n)) for n, each in shapes.items()}


@contextlib.contextmanager
def _reading(path: str, name: str = "") -> Iterator[None]:
    """Raise errors of tensorstore as `InputError`, or as `StorageUnavailable`."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        _refuse_busy(path, error)
        raise InputError(f"{path}: {name}cannot be read ({_reason_of(error)})") from None


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raise errors of tensorstore about files, such as a full disk, as `OSError`."""
    try:
        yield
    except TimeoutError as error:
        # Orbax hides why processes could not wait for each other. `Workers` recognizes it.
        raise error.__cause__ or error from None
    except ValueError as error:
        if not _is_of_tensorstore(error):
            raise
        _refuse_busy(path, error)
        _wait_for_other_writes(path)
        if code := _OS_ERROR.search(str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1])), path) from None
        raise OSError(f"{path}: cannot be written ({_reason_of(error)})") from None


def _wait_for_other_writes(path: str) -> None:
    """Wait until no file has changed for a second: one write has failed, others may still run."""
    folder, name = OrbaxFolder(os.path.dirname(path)), os.path.basename(path)
    before = None
    found: dict[str, dict[str, int]] = {}
    while found != before and not files.is_remote(path):
        time.sleep(1)
        before = found
        found = {unfinished: files.sizes(unfinished) for unfinished in folder.unfinished(name)}


# How messages of tensorstore begin: "RESOURCE_EXHAUSTED: ...", and those that it has tried again.
_STATUS = re.compile(r"[A-Z]+(_[A-Z]+)*: ")
_BUSY = re.compile(r"(ABORTED|DEADLINE_EXCEEDED|INTERNAL|RESOURCE_EXHAUSTED|UNAVAILABLE): ")
_OS_ERROR = re.compile(r"\[os_error_code='(\d+)'\]")
# Such as [source locations='tensorstore/kvstore/...'] and [tensorstore_spec='{...}'].
_DETAILS = re.compile(r" \[(source locations|tensorstore_spec|os_error_code)=.*")


def _is_of_tensorstore(error: BaseException | None) -> bool:
    return isinstance(error, ValueError) and bool(_STATUS.match(str(error)))


def _refuse_busy(path: str, error: Exception) -> None:
    if files.is_remote(path) and _BUSY.match(str(error)):
        raise StorageUnavailable(
            f"{path}: unavailable ({_reason_of(error)}); rerun the same command later"
        ) from None


def _reason_of(error: Exception) -> str:
    """Return the message of an error of tensorstore, without details of its own code."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _DETAILS.sub("", line).strip()
