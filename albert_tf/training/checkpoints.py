"""Checkpoints that are flat dictionaries from variable paths to values.

Keys are the paths of the original project's names, not the attributes of any class, so a checkpoint
outlives refactorings and says by itself what it holds.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import (
    exists,
    remove,
    tensorflow_errors_as_os_errors,
    tensorflow_reason,
)

_PARAMETER = re.compile(r"^params/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")


class Checkpoints:
    """Saves and restores a training state in a folder.

    A checkpoint is written under temporary names first; only a complete one is listed in the file
    `checkpoint`, which is replaced in one step. So a run that is killed at any moment leaves the
    one before as the newest.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept.
        model: its weights are saved under `params`.
        optimizer: already built; its state is saved under `optimizer`.
        keep: number of newest checkpoints that stay.
    """

    def __init__(
        self, folder: str, model: keras.Model, optimizer: keras.optimizers.Optimizer, keep: int = 5
    ):
        self.model = model
        self.iterations = optimizer.iterations
        moments = {v.path: v.value for v in optimizer.variables if v is not optimizer.iterations}
        self._checkpoint = tf.train.Checkpoint(
            params={weight.path: weight.value for weight in model.weights},
            optimizer=moments,
            step=self.iterations.value,
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, folder, max_to_keep=keep, checkpoint_name="model.ckpt"
        )

    @property
    def latest(self) -> str | None:
        """Path of the newest complete checkpoint."""
        return self._manager.latest_checkpoint

    def restore_latest(self) -> bool:
        """Restores the newest checkpoint, if there is one; says whether there was.

        Raises:
            InputError: it is of a model of another shape, or of another optimizer.
        """
        if self.latest is None:
            return False
        check_shapes(self.model, self.latest)
        try:
            self._checkpoint.restore(self.latest).assert_consumed()
        except (AssertionError, ValueError):
            raise InputError(
                f"{self.latest}: was written with another optimizer or other heads; give the same "
                "--optimizer, or another --output_dir and this one as --init_checkpoint"
            ) from None
        return True

    def save(self) -> str:
        """Writes a checkpoint of the current step; returns its path.

        Raises:
            OSError: it cannot be written; nothing of it stays behind.
        """
        step = int(self.iterations.numpy())
        try:
            with tensorflow_errors_as_os_errors():
                return self._manager.save(checkpoint_number=step)
        except OSError:
            remove(f"{self._manager.directory}/model.ckpt-{step}_temp")
            raise


def find_checkpoint(path: str, flag: str = "init_checkpoint") -> str:
    """The checkpoint that `path` names: a prefix (`out/model.ckpt-500`), or a folder's newest.

    Raises:
        InputError: there is none.
    """
    if exists(path + ".index"):
        return path
    if path.endswith(".index") and exists(path):
        return path[: -len(".index")]
    if latest := tf.train.latest_checkpoint(path):
        return latest
    raise InputError(
        f"--{flag}={path}: no checkpoint there; give a folder that holds one, or a name such as "
        f"{os.path.join(path, 'model.ckpt-1000')}"
    )


def parameter_shapes(path: str) -> dict[str, list[int]]:
    """Shapes of the model weights in a checkpoint, by variable path.

    Raises:
        InputError: the checkpoint cannot be read, or was not written by this project.
    """
    try:
        shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read ({tensorflow_reason(error)})") from None
    found = {
        _unescape(match.group(1)): shape
        for key, shape in shapes.items()
        if (match := _PARAMETER.match(key))
    }
    if not found:
        raise InputError(f"{path}: holds no weights under `params`; was it written by albert_tf?")
    return found


def check_shapes(model: keras.Model, path: str, init_from_group0: bool = False) -> dict[str, str]:
    """Checks a checkpoint against a model.

    Returns:
        Path of a weight of the model -> its name in the checkpoint, for the weights that are there.

    Raises:
        InputError: a weight has another shape there; the message names it.
    """
    shapes = parameter_shapes(path)
    names = {}
    for weight in model.weights:
        name = _in_group0(weight.path) if init_from_group0 else weight.path
        if name not in shapes:
            continue
        names[weight.path] = name
        if list(weight.shape) != shapes[name]:
            raise InputError(
                f"{path}: {name} has shape {shapes[name]}, the model's {list(weight.shape)}; was "
                "it trained with another --albert_config_file?"
            )
    return names


def _in_group0(path: str) -> str:
    """The name of the same weight in the first block of the first group."""
    return re.sub(r"group_\d+/", "group_0/", path)


class Matched(NamedTuple):
    """What `load_weights` did, as variable paths: loaded, left at initial values, not needed."""

    loaded: list[str]
    fresh: list[str]
    unused: list[str]


def load_weights(
    model: keras.Model, path: str, flag: str = "init_checkpoint", init_from_group0: bool = False
) -> Matched:
    """Loads the weights that a checkpoint and a model have in common.

    Args:
        model: any model of this project.
        path: a checkpoint, or a folder whose newest is taken.
        flag: named in errors.
        init_from_group0: whether every group of layers takes the weights of the checkpoint's first
            (the paper starts its deeper models from shallower ones).

    Raises:
        InputError: no checkpoint there, shapes differ, or the encoder is not all in it.
    """
    path = find_checkpoint(path, flag)
    names = check_shapes(model, path, init_from_group0)
    fresh = [weight.path for weight in model.weights if weight.path not in names]
    if missing := [name for name in fresh if name.startswith("bert/")]:
        raise InputError(
            f"--{flag}={path}: lacks {missing[0]} and {len(missing) - 1} more of the encoder; was "
            "it trained with another --albert_config_file?"
        )
    reader = tf.train.load_checkpoint(path)
    for weight in model.weights:
        if weight.path in names:
            weight.assign(_value(reader, names[weight.path]))
    unused = sorted(set(parameter_shapes(path)) - set(names.values()))
    return Matched(list(names), fresh, unused)


def _value(reader, name: str) -> np.ndarray:
    return reader.get_tensor(f"params/{_escape(name)}/.ATTRIBUTES/VARIABLE_VALUE")


def _escape(name: str) -> str:
    """A dictionary key as TensorFlow writes it in the names of a checkpoint."""
    return name.replace(".", "..").replace("/", ".S")


def _unescape(name: str) -> str:
    return re.sub(r"\.(.)", lambda m: "/" if m.group(1) == "S" else m.group(1), name)
