"""Checkpoints of the JAX engine: reading their weights, and writing one without an engine.

Values are read with tensorstore, which orbax itself writes with, so that reading starts no JAX
devices: in a process on TensorFlow, JAX would take most of a GPU's memory.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import google_crc32c
import keras
import numpy as np

from albert_tf.checkpoints.folder import CHECKSUM_FILE, ORBAX, unfinished_path
from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files import (
    checksums,
    exists,
    is_remote,
    read_json,
    read_text,
    rename,
    sizes,
    without_magic,
    write_text,
)
from albert_tf.weights import Tensor, Weights, adjacent_config

Store: TypeAlias = Any  # an open tensorstore.TensorStore

METADATA_FILE = "_METADATA"

# Kinds of values, and the numbers of keys that lead to them: {"params": {path: value}, ...}.
_KEYS = {"params": 2, "optimizer": 2, "step": 1}


@dataclass(frozen=True)
class _Key:
    key: str


@dataclass(frozen=True)
class _Value:
    key_metadata: list[_Key]


@dataclass(frozen=True)
class _Metadata:
    """What is read of orbax's `_METADATA`."""

    tree_metadata: dict[str, _Value]
    use_zarr3: bool = False


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
    _silence_orbax()
    return orbax.checkpoint


@functools.cache
def _silence_orbax() -> None:
    """Hide what orbax logs, and what is printed when writes fail: it raises the first error."""
    logging.getLogger("absl").addFilter(_is_not_of_orbax)
    logging.getLogger("asyncio").addFilter(_is_not_of_tensorstore)
    report = sys.unraisablehook

    def report_others(unraisable: sys.UnraisableHookArgs) -> None:
        # After the first write that fails, orbax closes the event loop that the others report to.
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = report_others


def _is_not_of_orbax(record: logging.LogRecord) -> bool:
    return f"{os.sep}orbax{os.sep}" not in record.pathname


def _is_not_of_tensorstore(record: logging.LogRecord) -> bool:
    # Further writes fail after the first; their errors are never retrieved.
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ValueError) and _STATUS.match(str(error)))


def _not_installed(package: str) -> InputError:
    return InputError(
        f"{package}, which checkpoints of engine jax need, is not installed; "
        "pip install 'albert-tf[jax]'"
    )


def create_handler() -> Any:
    """Return how orbax stores the state of training: uncompressed.

    Compression takes longer than writing and saves 7 % of the size, as weights look random.
    """
    return import_orbax().PyTreeCheckpointHandler(use_compression=False)


def read_training_checkpoint(path: str, verify: bool = True) -> Weights:
    """Open the weights in a checkpoint that training on JAX saved.

    Args:
        path: of the checkpoint, a folder.
        verify: whether to read all of it first, to compare checksums.

    Raises:
        InputError: If it is damaged, was not written by this project, or tensorstore is not
            installed.
    """
    if verify:
        check_intact(path)
    stores = _open_stores(path)
    limit = sum(sizes(path).values())
    kinds: dict[str, dict[str, Tensor]] = {kind: {} for kind in _KEYS}
    for keys, store in stores.items():
        kinds[keys[0]][keys[-1]] = _tensor_of(path, keys, store, limit)
    if not kinds["params"] or not kinds["step"]:
        raise InputError(f"{path}: has no weights under `params`; was it written by albert_tf?")
    return Weights(
        path=path,
        format="albert_tf",
        tensors=kinds["params"],
        skipped={
            tensor.name: tensor.shape
            for kind in ("optimizer", "step")
            for tensor in kinds[kind].values()
        },
        config=adjacent_config(path),
        step=int(kinds["step"]["step"].read()),
        optimizer=kinds["optimizer"],
    )


def _open_stores(path: str) -> dict[tuple[str, ...], Store]:
    """Return key -> array for every value of a checkpoint, without reading any."""
    try:
        import tensorstore
    except ImportError:
        raise _not_installed("tensorstore") from None

    metadata = read_json(os.path.join(path, METADATA_FILE), _Metadata)
    driver = "zarr3" if metadata.use_zarr3 else "zarr"
    base = _base_of(path)
    context = tensorstore.Context()  # shared, so that not every value reads the index again
    opened = {}
    for value in metadata.tree_metadata.values():
        keys = tuple(key.key for key in value.key_metadata)
        if not keys or len(keys) != _KEYS.get(keys[0]):
            raise InputError(f"{path}: contains {keys}; was it written by albert_tf?")
        kvstore = {"driver": "ocdbt", "base": base, "path": ".".join(keys)}
        spec = {"driver": driver, "kvstore": kvstore}
        opened[keys] = tensorstore.open(spec, read=True, context=context)
    try:
        return {keys: future.result() for keys, future in opened.items()}
    except (ValueError, RuntimeError, OSError) as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: Exception, name: str = "") -> InputError | StorageUnavailable:
    """Return what to raise for an error of tensorstore while a checkpoint is read.

    Args:
        path: of the checkpoint.
        error: the error.
        name: of what cannot be read; all of it, by default.
    """
    reason = reason_of(error)
    if is_remote(path) and _BUSY.match(str(error)):
        return StorageUnavailable(f"{path}: unavailable ({reason}); rerun the same command later")
    return InputError(f"{path}: {name and f'{name} '}cannot be read ({reason})")


def _base_of(path: str) -> dict[str, str]:
    """Return where tensorstore finds the files of a checkpoint."""
    if not is_remote(path):
        return {"driver": "file", "path": os.path.abspath(path) + "/"}
    scheme, _, name = path.partition("://")
    if scheme != "gs":
        raise InputError(f"{path}: checkpoints of engine jax are read from local folders and gs://")
    bucket, _, name = name.partition("/")
    return {"driver": "gcs", "bucket": bucket, "path": f"{name}/"}


def _tensor_of(path: str, keys: tuple[str, ...], store: Store, limit: int) -> Tensor:
    """Return one value.

    Args:
        path: of the checkpoint, for errors.
        keys: of the value.
        store: the open array.
        limit: size of the checkpoint in bytes; as nothing is compressed, no value takes more.
    """
    name = keys[-1] if keys[0] == "params" else "/".join(keys)
    shape = tuple(store.shape)

    def read() -> np.ndarray:
        if math.prod(shape) * store.dtype.numpy_dtype.itemsize > limit:
            raise InputError(f"{path}: {name} cannot be read (larger than the checkpoint)")
        try:
            return store.read().result()
        except (ValueError, RuntimeError, OSError) as error:
            raise unreadable(path, error, name) from None

    return Tensor(name, shape, shape, read)


def write_training_checkpoint(
    path: str, values: Mapping[str, np.ndarray], step: int, optimizer: Mapping[str, np.ndarray]
) -> None:
    """Write a checkpoint as training on JAX does, and list it as the latest.

    Args:
        path: of the checkpoint, such as `out/model.ckpt-1000`.
        values: variable path -> value.
        step: training step.
        optimizer: variable path -> value, for the state of the optimizer; may be empty.

    Raises:
        InputError: If orbax is not installed.
        OSError: If the checkpoint cannot be written.
    """
    orbax = import_orbax()
    if keras.backend.backend() != "jax":
        import jax

        # Orbax asks JAX which process this is. JAX must not start the accelerators for that.
        jax.config.update("jax_platforms", "cpu")
    tree = {"params": dict(values), "step": np.asarray(step, np.int32)}
    if optimizer:  # orbax would store an empty dictionary as a value
        tree["optimizer"] = dict(optimizer)
    with (
        errors_as_os_errors(path),
        orbax.Checkpointer(create_handler()) as checkpointer,
    ):
        target = without_magic(os.path.abspath(unfinished_path(path)))
        checkpointer.save(target, orbax.args.PyTreeSave(tree))
    complete(path)
    ORBAX.list_only(path)


@contextlib.contextmanager
def errors_as_os_errors(path: str) -> Iterator[None]:
    """Raise errors of tensorstore about files, such as a full disk, as `OSError`.

    Args:
        path: of the checkpoint that is written, for errors.

    Raises:
        StorageUnavailable: If a server has not answered for long.
    """
    try:
        yield
    except ValueError as error:
        if not _STATUS.match(str(error)):
            raise
        if is_remote(path) and _BUSY.match(str(error)):
            raise StorageUnavailable(
                f"{path}: unavailable ({reason_of(error)}); rerun the same command later"
            ) from None
        if code := _OS_ERROR.search(str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1])), path) from None
        raise OSError(f"{path}: cannot be written ({reason_of(error)})") from None


def reason_of(error: Exception) -> str:
    """Return the message of an error of tensorstore, without details of its own code."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _DETAILS.sub("", line).strip()


# How messages of tensorstore begin: "RESOURCE_EXHAUSTED: ...", and those that it has tried again.
_STATUS = re.compile(r"[A-Z]+(_[A-Z]+)*: ")
_BUSY = re.compile(r"(ABORTED|DEADLINE_EXCEEDED|INTERNAL|RESOURCE_EXHAUSTED|UNAVAILABLE): ")
_OS_ERROR = re.compile(r"\[os_error_code='(\d+)'\]")
# Such as [source locations='tensorstore/kvstore/...'] and [tensorstore_spec='{...}'].
_DETAILS = re.compile(r" \[(source locations|tensorstore_spec|os_error_code)=.*")


def complete(path: str) -> None:
    """Give a checkpoint under its `unfinished_path` checksums and its name, and sync it.

    Raises:
        OSError: If it could not be written.
    """
    unfinished = unfinished_path(path)
    write_checksums(unfinished)
    if unfinished != path:
        ORBAX.remove(path)
        rename(unfinished, path)


def write_checksums(path: str) -> None:
    """Write the sizes and CRC-32Cs of all files of a checkpoint into it."""
    found = {name: sums for name, sums in checksums(path).items() if name != CHECKSUM_FILE}
    text = "".join(f"{crc:08x} {size} {name}\n" for name, (size, crc) in found.items())
    write_text(os.path.join(path, CHECKSUM_FILE), f"{text}{_crc_of_text(text):08x}\n")


def damage_of(path: str) -> str | None:
    """Return why a checkpoint cannot be read, in one line; None if it is intact."""
    try:
        recorded = _read_checksums(path)
        found = checksums(path)
        for name, (size, crc) in recorded.items():
            if name not in found:
                return f"{name} is missing"
            if found[name][0] != size:
                return f"{name} has {found[name][0]} bytes instead of {size}"
            if found[name][1] != crc:
                return f"the checksum of {name} does not match"
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return f"{error.filename or path}: {error.strerror or error}"
    return None


def check_intact(path: str) -> None:
    """Raise InputError if a checkpoint is damaged."""
    if reason := damage_of(path):
        raise InputError(f"{path}: cannot be read ({reason})")


def _read_checksums(path: str) -> dict[str, tuple[int, int]]:
    """Return file -> size and CRC-32C.

    Raises:
        InputError: If the file is missing or damaged.
    """
    file = os.path.join(path, CHECKSUM_FILE)
    if not exists(file):
        raise InputError(f"{path}: {CHECKSUM_FILE} is missing")
    damaged = InputError(f"{path}: {CHECKSUM_FILE} is damaged")
    try:
        text = read_text(file)
    except InputError:
        raise damaged from None
    lines = text.splitlines(keepends=True) or [""]
    content = "".join(lines[:-1])
    if lines[-1] != f"{_crc_of_text(content):08x}\n":
        raise damaged
    found = {}
    for line in lines[:-1]:
        row = re.fullmatch(r"([0-9a-f]{8}) ([0-9]{1,18}) (.+)\n", line)
        if row is None:
            raise damaged
        found[row[3]] = (int(row[2]), int(row[1], 16))
    return found


def _crc_of_text(text: str) -> int:
    return google_crc32c.value(text.encode())
