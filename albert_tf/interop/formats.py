"""Formats of weights: detected from a path, read, and loaded into a model."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, files_in, is_folder
from albert_tf.hub.names import local_weights
from albert_tf.interop import huggingface, layout
from albert_tf.interop.checkpoint_folders import (
    ORBAX,
    TENSORFLOW,
    conversion_command,
    has_orbax_checkpoints,
)
from albert_tf.interop.weights import (
    MatchedWeights,
    Weights,
    adjacent_config,
    check_encoder,
    config_differences,
    match,
)


def _checkpoints(path: str) -> types.ModuleType:
    """Return the module that reads TensorFlow checkpoints.

    Raises:
        InputError: If TensorFlow is not installed, or this process runs on JAX: two frameworks in
            one process compete for the memory of its devices.
    """
    # A program that has already loaded TensorFlow, such as the conversion, may use it.
    if keras.backend.backend() == "jax" and "tensorflow" not in sys.modules:
        _check_exists(path)
        raise InputError(
            f"`path`={path}: is read by TensorFlow, which does not run in a process on JAX; "
            f"convert it first: {conversion_command(path, 'jax')}"
        )
    try:
        from albert_tf.interop import tensorflow_checkpoints
    except ImportError:
        raise InputError(
            f"`path`={path}: TensorFlow is not installed; without it, weights are read from a "
            "Hugging Face folder, a checkpoint of engine jax or a .weights.h5 file, which "
            "convert_checkpoint.py writes"
        ) from None
    return tensorflow_checkpoints


def _check_exists(path: str) -> None:
    """Raise InputError if there is nothing at `path` that TensorFlow could read."""
    names = (layout.SAVED_MODEL, os.path.join(layout.ENCODER, layout.SAVED_MODEL), "checkpoint")
    files = (path, f"{path}.index", *(os.path.join(path, name) for name in names))
    found = any(exists(file) and not is_folder(file) for file in files)
    if not found and not files_in(path, "*.index"):
        TENSORFLOW.find(path)


def _read_saved_model(path: str, config: AlbertConfig | None) -> Weights:
    _checkpoints(path)
    from albert_tf.interop import saved_model_weights

    folder = layout.encoder_folder(path)
    if exists(os.path.join(folder, layout.SAVED_MODEL)):
        return saved_model_weights.read_saved_model(folder)
    return saved_model_weights.read_object_checkpoint(TENSORFLOW.find(path))


def _read_huggingface(path: str, config: AlbertConfig | None) -> Weights:
    return huggingface.read_huggingface(path)


def _read_google(path: str, config: AlbertConfig | None) -> Weights:
    _checkpoints(path)
    from albert_tf.interop.google_checkpoints import read_google_checkpoint

    return read_google_checkpoint(TENSORFLOW.find(path))


def _read_albert_tf(path: str, config: AlbertConfig | None) -> Weights:
    if path.endswith(".h5"):
        from albert_tf.interop.keras_weights import read_keras_weights

        return read_keras_weights(path, config or adjacent_config(path))
    if has_orbax_checkpoints(path):
        from albert_tf.interop import orbax_checkpoints

        return orbax_checkpoints.read_training_checkpoint(ORBAX.find(path))
    checkpoints = _checkpoints(path)
    return checkpoints.read_training_checkpoint(TENSORFLOW.find(path))


# Name -> reader(path, config); `config` is the model's, for files that do not come with one.
FORMATS: dict[str, Callable[[str, AlbertConfig | None], Weights]] = {
    "albert_tf": _read_albert_tf,
    "google": _read_google,
    "huggingface": _read_huggingface,
    "saved_model": _read_saved_model,
}


def find_format(path: str) -> str:
    """Detect the format of the weights at `path`.

    Returns:
        A key of `FORMATS`.

    Raises:
        InputError: If `path` contains no weights in a known format.
    """

    def contains(*names: str) -> bool:
        return any(exists(os.path.join(path, name)) for name in names)

    if path.endswith(".h5"):
        return "albert_tf"
    if path.endswith(".safetensors") or contains(huggingface.WEIGHTS, huggingface.INDEX):
        return "huggingface"
    if contains(layout.SAVED_MODEL, os.path.join(layout.ENCODER, layout.SAVED_MODEL)):
        return "saved_model"
    if path.endswith(huggingface.PICKLE_ENDINGS) or contains(*huggingface.PICKLES):
        return "huggingface"  # whose reader refuses pickles
    if has_orbax_checkpoints(path):
        return "albert_tf"
    checkpoints = _checkpoints(path)
    _, names = checkpoints.open_checkpoint(TENSORFLOW.find(path))
    if checkpoints.parameters(names):
        return "albert_tf"
    return "saved_model" if checkpoints.OBJECT_GRAPH in names else "google"


def open_weights(path: str, format: str = "auto", config: AlbertConfig | None = None) -> Weights:
    """Open the weights at `path`; values are read on demand.

    Args:
        path: a training folder of any engine or a checkpoint in it, a checkpoint of the original
            project or its folder, a Hugging Face folder, a TF-Hub SavedModel, an export, or a
            `.weights.h5` file.
        format: a key of `FORMATS`, or "auto" to detect it.
        config: the model's config, for files that do not come with one.

    Raises:
        InputError: If `path` does not exist, cannot be read, or is not an ALBERT model.
    """
    if not path:
        raise InputError("`path`: must not be empty")
    if format == "auto":
        format = find_format(path)
    return FORMATS[format](path, config)


def load_weights(
    model: keras.Model, path: str, *, init_from_group0: bool = False
) -> MatchedWeights:
    """Load the weights that a file, in any format, and a model have in common.

    Args:
        model: any model of this package.
        path: as for `open_weights`, or the name of published weights, such as
            "albert/albert-base-v2" or "albert_base_v2", which are fetched.
        init_from_group0: whether every group of layers is loaded from the file's first group, as
            the paper initializes its deeper models from shallower ones.

    Returns:
        Which variables were loaded, and which were not.

    Raises:
        InputError: If `path` contains no weights, shapes or attention heads differ, or weights of
            the encoder are missing.

    Example:
        >>> encoder = albert_tf.from_preset("albert/albert-base-v2", load_weights=False)
        >>> matched = albert_tf.load_weights(encoder, "albert/albert-base-v2")
        >>> len(matched.loaded) == len(encoder.weights), matched.missing
        (True, [])
    """
    path = local_weights(path, argument="path")
    weights = open_weights(path, config=adjacent_config(path) or model.config)
    with arguments_renamed(weights="path"):
        notes = config_differences(model.config, weights)
        shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
        matched = match(shapes, weights, init_from_group0=init_from_group0)
        check_encoder(matched, weights)
    for weight in model.weights:
        if name := matched.loaded.get(weight.path):
            weight.assign(weights.read(name))
    return matched._replace(notes=notes)
