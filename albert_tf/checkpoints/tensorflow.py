"""TensorFlow checkpoints: reading them, and the format of this project's training."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.folder import TENSORFLOW, files_of
from albert_tf.errors import InputError, tensorflow_reason
from albert_tf.files import sync, sync_names, without_magic
from albert_tf.weights import Shape, Tensor, Weights, adjacent_config

Reader: TypeAlias = Any  # what tf.train.load_checkpoint returns; its class has no public name

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_PARAMETER = re.compile(r"^params/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_OPTIMIZER = re.compile(r"^optimizer/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_STEP = "step/.ATTRIBUTES/VARIABLE_VALUE"


def open_checkpoint(path: str) -> tuple[Reader, dict[str, Shape]]:
    """Open the checkpoint with the prefix `path`.

    Returns:
        A reader, and the shapes of the values by name.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        reader = tf.train.load_checkpoint(without_magic(path))
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"{path}: cannot be read ({tensorflow_reason(error)})") from None
    return reader, {name: tuple(shape) for name, shape in shapes.items()}


def damage_of(path: str) -> str | None:
    """Return why a checkpoint cannot be read, in one line; None if all of its values can be.

    Reads the whole checkpoint: TensorFlow verifies the checksum of a value when it is read.
    """
    try:
        reader, shapes = open_checkpoint(path)
        for name in shapes:
            read_tensor(path, reader, name)
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def parameters(names: Iterable[str]) -> dict[str, str]:
    """Map variable paths to names in a checkpoint or SavedModel, for values under `params`."""
    return {_unescape(match[1]): name for name in names if (match := _PARAMETER.match(name))}


def read_training_checkpoint(path: str) -> Weights:
    """Open the weights in a checkpoint that training saved.

    Args:
        path: prefix of the checkpoint.

    Raises:
        InputError: If it cannot be read, or was not written by this project.
    """
    reader, shapes = open_checkpoint(path)
    names = parameters(shapes)
    if not names:
        raise InputError(f"{path}: has no weights under `params`; was it written by albert_tf?")
    return Weights(
        path=path,
        format="albert_tf",
        tensors={
            variable: tensor_of(path, reader, variable, shapes[name], name)
            for variable, name in names.items()
        },
        skipped={
            name: shape
            for name, shape in shapes.items()
            if name not in names.values() and name != OBJECT_GRAPH
        },
        config=adjacent_config(path),
        step=int(read_tensor(path, reader, _STEP)) if _STEP in shapes else None,
        optimizer={
            _unescape(found[1]): tensor_of(path, reader, name, shape, name)
            for name, shape in shapes.items()
            if (found := _OPTIMIZER.match(name))
        },
    )


def tensor_of(path: str, reader: Reader, name: str, shape: Shape, key: str) -> Tensor:
    """Return a value of a checkpoint that has the shape of the variable.

    Args:
        path: of the checkpoint, for errors.
        reader: of the checkpoint.
        name: name to report.
        shape: of the value.
        key: name of the value in the checkpoint.
    """
    return Tensor(name, shape, shape, lambda: read_tensor(path, reader, key))


def read_tensor(path: str, reader: Reader, key: str) -> np.ndarray:
    """Read a value of a checkpoint.

    Raises:
        InputError: If the file is damaged.
    """
    try:
        return reader.get_tensor(key)
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: {key} cannot be read ({tensorflow_reason(error)})") from None


def write_training_checkpoint(
    path: str,
    values: Mapping[str, np.ndarray],
    step: int,
    optimizer: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a checkpoint as training does, and list it as the latest.

    Args:
        path: prefix of its files, such as `out/model.ckpt-1000`.
        values: variable path -> value.
        step: training step.
        optimizer: variable path -> value, for the state of the optimizer; may be empty.
    """
    write_copied(path, copy_values(values, np.int64(step), optimizer))
    TENSORFLOW.list_only(path)


def copy_values(
    params: Mapping[str, Any], step: Any, optimizer: Mapping[str, Any] | None = None
) -> tf.train.Checkpoint:
    """Return the values of variables, of arrays or of tensors, as a checkpoint in host memory."""
    with tf.device("/cpu:0"):
        state = {
            kind: {path: tf.Variable(value) for path, value in values.items()}
            for kind, values in (("params", params), ("optimizer", optimizer or {}))
            if values
        }
        checkpoint = tf.train.Checkpoint(**state, step=tf.Variable(step))
        _ = checkpoint.save_counter  # created on access; checkpoints of training have one
    return checkpoint


def write_copied(path: str, checkpoint: tf.train.Checkpoint) -> None:
    """Write a checkpoint; return when every byte is on the disk."""
    checkpoint.write(path)
    for file in files_of(path):
        sync(file)
    sync_names(os.path.dirname(path))


def _unescape(name: str) -> str:
    """Recover a dictionary key from its escaped form in the names of a checkpoint."""
    return re.sub(r"\.(.)", lambda m: "/" if m.group(1) == "S" else m.group(1), name)
