"""Weights files of Keras (`.weights.h5`), as `model.save_weights` writes them.

They hold variables by their place in the object, not by path: a model of the kind that wrote the
file reads it.
"""

from __future__ import annotations

import os
import shutil

import h5py
import keras

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import temporary_name
from albert_tf.interop.models import create_model
from albert_tf.interop.weights import Tensor, Weights

ENDING = ".weights.h5"

# Group of the file -> the kind of model. A head is called after its attribute, or after its class
# where that comes after "layers" in the alphabet.
_KINDS = {
    "layers/masked_lm_head": "pretraining",
    "layers/span_head": "span",
    "answer_class": "conditional_span",
    "classifier": "classifier",
}


def read_keras_weights(path: str, config: AlbertConfig | None) -> Weights:
    """The weights in a file of Keras.

    Args:
        path: of a local file.
        config: of the model; the file says nothing of it.

    Raises:
        InputError: the file is missing or damaged, or was written by a model of another shape.
    """
    if config is None:
        raise InputError(f"{path}: needs the config of its model, {CONFIG_FILE}, beside it")
    try:
        with h5py.File(path) as file:
            kind = next((kind for name, kind in _KINDS.items() if name in file), "encoder")
            head = file["classifier/vars/0"].shape if kind == "classifier" else ()
        model = create_model(kind, config, {"classifier/output_weights": head})
        model.load_weights(path)
    except (OSError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: does not hold the weights of a model with this config ({reason})"
        ) from None
    tensors = {
        weight.path: Tensor(weight.path, tuple(weight.shape), tuple(weight.shape), _reader(weight))
        for weight in model.weights
    }
    return Weights(path, "albert_tf", tensors, config=config)


def _reader(weight):
    return lambda: keras.ops.convert_to_numpy(weight)


def write_keras_weights(path: str, model: keras.Model) -> None:
    """Writes the weights of a model; the file is there whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    folder = temporary_name(path)
    os.mkdir(folder)
    try:
        partial = os.path.join(folder, "model" + ENDING)
        model.save_weights(partial)
        os.replace(partial, path)
    finally:
        shutil.rmtree(folder)
