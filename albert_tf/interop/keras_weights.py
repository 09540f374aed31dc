"""Keras weights files (`.weights.h5`), as `model.save_weights` writes them.

Keras identifies variables by their place in the model object, not by path, so only a model of the
kind that wrote a file can read it.
"""

import functools
import os
import shutil

import h5py
import keras

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import rename, temporary_name
from albert_tf.interop.converted_model import ConvertedModel, meaning
from albert_tf.interop.heads import HEADS, create_model
from albert_tf.task_kinds import ENCODER
from albert_tf.weights import Tensor, Weights

SUFFIX = ".weights.h5"

# Bytes of an HDF5 file besides the values.
_OVERHEAD_BYTES = 1 << 20


def read_keras_weights(path: str, config: AlbertConfig | None) -> Weights:
    """Open the weights in a local Keras weights file, which does not contain the model's config.

    Raises:
        InputError: If the file is missing or damaged, or was written by a model of another shape.
    """
    if config is None:
        raise InputError(f"{path}: requires {CONFIG_FILE} of the model in the same folder")
    try:
        with h5py.File(path) as file:
            # Groups of heads may be part of other models, whose heads come first.
            found = (h for h in HEADS.values() if h.keras_group and h.keras_group in file)
            head = next(found, ENCODER)
            shape = file[f"{head.keras_group}/vars/0"].shape if head.labeled else ()
        model = create_model(head.name, config, {f"{head.scope}output_weights": shape})
        model.load_weights(path)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: does not contain the weights of a model with this config ({reason})"
        ) from None
    tensors = {}
    for weight in model.weights:
        read = functools.partial(keras.ops.convert_to_numpy, weight)
        shape = tuple(weight.shape)
        tensors[weight.path] = Tensor(weight.path, shape, shape, read)
    return Weights(path, "albert_tf", tensors, config=config)


def write_keras(output: str, model: ConvertedModel) -> None:
    """Write a Keras weights file, and next to it what its weights need.

    Raises:
        InputError: If files of another model are there.
    """
    folder = os.path.dirname(output)
    texts = {CONFIG_FILE: model.config.to_json(), **meaning(model)}
    for name, text in texts.items():
        path = os.path.join(folder, name)
        if not files.exists(path):
            continue
        differs = files.read_json(path, object) != files.parse_json(text, path, object)
        if differs and (name != CONFIG_FILE or AlbertConfig.from_json_file(path) != model.config):
            raise InputError(f"`output`={output}: {path} belongs to another model")
    shapes = {path: value.shape for path, value in model.values.items()}
    keras_model = create_model(model.head, model.config, shapes)
    for variable in keras_model.weights:
        if variable.path in model.values:
            variable.assign(model.values[variable.path])
    files.make_folder(folder, "output")
    files.write_files(folder, texts)  # first, for the weights need them
    write_keras_weights(output, keras_model)


def write_keras_weights(path: str, model: keras.Model) -> None:
    """Write the weights of a model atomically.

    Raises:
        OSError: If the file cannot be written.
    """
    folder = temporary_name(path)
    os.mkdir(folder)
    try:
        partial = os.path.join(folder, "model" + SUFFIX)
        _require_space(partial, 4 * model.count_params())
        model.save_weights(partial)
        rename(partial, path)
    finally:
        shutil.rmtree(folder)


def _require_space(path: str, size: int) -> None:
    """Raise OSError if a file of so many bytes cannot be written to `path`.

    HDF5 ends the process if it finds the disk full when it closes a file.
    """
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size + _OVERHEAD_BYTES)
    os.remove(path)
