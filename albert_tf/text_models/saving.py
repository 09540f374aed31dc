"""Writes a text model as a folder like those that the commands leave."""

from __future__ import annotations

import os
from collections.abc import Mapping

import keras

from albert_tf import files
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint_folders import NAME


def save_model(
    folder: str, model: keras.Model, step: int, companions: Mapping[str, str | bytes]
) -> None:
    """Writes weights, config and other files; the folder appears when it is complete.

    The checkpoint is one of the engine of Keras' backend.

    Args:
        folder: must not exist, or be empty.
        model: a model of this package.
        step: its training steps.
        companions: file name -> content of what goes next to the weights, besides the config.

    Raises:
        InputError: if the folder contains something.
        OSError: if it cannot be written.
    """
    folder = folder.rstrip("/")
    if not folder:
        raise InputError("`folder`: must not be empty")
    if files.exists(folder) and not (files.is_folder(folder) and not files.names_in(folder)):
        raise InputError(f"`folder`={folder}: already exists; remove it or choose another name")
    if parent := os.path.dirname(folder):
        files.make_folder(parent, "folder")
    values = {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}
    with files.replacing(folder) as partial:
        files.make_folder(partial, "folder")
        write_training_checkpoint(os.path.join(partial, f"{NAME}-{step}"), values, step)
        for name, content in {CONFIG_FILE: model.config.to_json(), **companions}.items():
            write = files.write_text if isinstance(content, str) else files.write_bytes
            write(os.path.join(partial, name), content)


def write_training_checkpoint(path: str, values: Mapping, step: int) -> None:
    """Writes a checkpoint as the engine of Keras' backend does."""
    if keras.backend.backend() == "jax":
        from albert_tf.interop import orbax_checkpoints

        orbax_checkpoints.write_training_checkpoint(path, values, step, {})
    else:
        from albert_tf.interop import tensorflow_checkpoints

        tensorflow_checkpoints.write_training_checkpoint(path, values, step)
