"""Formats of weights: found by looking at a path, read, loaded into a model."""

from __future__ import annotations

import os
from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.interop import huggingface, layout
from albert_tf.interop.weights import (
    Matched,
    Weights,
    check_encoder,
    config_beside,
    config_differences,
    match,
)


def _checkpoints(path: str, flag: str):
    """The module that reads TensorFlow's files, where there is a TensorFlow."""
    try:
        from albert_tf.interop import tensorflow_checkpoints
    except ImportError:
        raise InputError(
            f"--{flag}={path}: TensorFlow is not installed; without it, weights are read from a "
            "Hugging Face folder or a .weights.h5 file, which convert_checkpoint.py writes"
        ) from None
    return tensorflow_checkpoints


def _read_saved_model(path: str, flag: str, config: AlbertConfig | None) -> Weights:
    checkpoints = _checkpoints(path, flag)
    from albert_tf.interop import hub

    folder = layout.encoder_folder(path)
    if exists(os.path.join(folder, layout.SAVED_MODEL)):
        return hub.read_saved_model(folder)
    return hub.read_object_checkpoint(checkpoints.find_checkpoint(path, flag))


def _read_huggingface(path: str, flag: str, config: AlbertConfig | None) -> Weights:
    return huggingface.read_huggingface(path)


def _read_google(path: str, flag: str, config: AlbertConfig | None) -> Weights:
    checkpoints = _checkpoints(path, flag)
    return checkpoints.read_google_checkpoint(checkpoints.find_checkpoint(path, flag))


def _read_albert_tf(path: str, flag: str, config: AlbertConfig | None) -> Weights:
    if path.endswith(".h5"):
        from albert_tf.interop.keras_weights import read_keras_weights

        return read_keras_weights(path, config or config_beside(path))
    checkpoints = _checkpoints(path, flag)
    return checkpoints.read_training_checkpoint(checkpoints.find_checkpoint(path, flag))


# Name -> reader(path, flag, config); `config` is the model's, for files that need one.
FORMATS: dict[str, Callable[[str, str, AlbertConfig | None], Weights]] = {
    "albert_tf": _read_albert_tf,
    "google": _read_google,
    "huggingface": _read_huggingface,
    "saved_model": _read_saved_model,
}


def find_format(path: str, flag: str) -> str:
    """The format of what is at `path`, by looking at it.

    Raises:
        InputError: nothing that is known is there.
    """

    def holds(*names: str) -> bool:
        return any(exists(os.path.join(path, name)) for name in names)

    if path.endswith(".h5"):
        return "albert_tf"
    if path.endswith(".safetensors") or holds(huggingface.WEIGHTS, huggingface.INDEX):
        return "huggingface"
    if holds(layout.SAVED_MODEL, os.path.join(layout.ENCODER, layout.SAVED_MODEL)):
        return "saved_model"
    if path.endswith(huggingface.PICKLE_ENDINGS) or holds(*huggingface.PICKLES):
        return "huggingface"  # whose reader refuses them
    checkpoints = _checkpoints(path, flag)
    _, names = checkpoints.open_checkpoint(checkpoints.find_checkpoint(path, flag))
    if checkpoints.parameters(names):
        return "albert_tf"
    return "saved_model" if checkpoints.OBJECT_GRAPH in names else "google"


def open_weights(
    path: str,
    flag: str = "init_checkpoint",
    format: str = "auto",
    config: AlbertConfig | None = None,
) -> Weights:
    """The weights at `path`.

    Args:
        path: a training folder or a checkpoint in it, a checkpoint of the original or its folder, a
            folder of Hugging Face, a TF-Hub SavedModel, an export with one in it, or a
            `.weights.h5` file of Keras.
        flag: that named it, for errors.
        format: a key of `FORMATS`, or "auto".
        config: of the model, for files that need one and have none beside them.

    Raises:
        InputError: it is not there, cannot be read, or is no ALBERT.
    """
    if not path:
        raise InputError(f"--{flag}: a path is needed")
    if format == "auto":
        format = find_format(path, flag)
    return FORMATS[format](path, flag, config)


def load_weights(
    model: keras.Model,
    path: str,
    flag: str = "init_checkpoint",
    init_from_group0: bool = False,
) -> Matched:
    """Loads the weights that a file, of any format, and a model have in common.

    Args:
        model: any model of this project.
        path: as for `open_weights`.
        flag: that named it, for errors.
        init_from_group0: whether every group of layers takes the weights of the file's first (the
            paper starts its deeper models from shallower ones).

    Raises:
        InputError: nothing is there, shapes or heads differ, or the encoder is not all in it.
    """
    weights = open_weights(path, flag, config=config_beside(path) or model.config)
    notes = config_differences(model.config, weights, flag)
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    matched = match(shapes, weights, flag, init_from_group0)
    check_encoder(matched, weights, flag)
    for weight in model.weights:
        if name := matched.loaded.get(weight.path):
            weight.assign(weights.read(name))
    return matched._replace(notes=notes)
