"""Weights of SavedModels and object-based checkpoints: ours, TF-Hub's and Model Garden's.

The functions in a SavedModel are never loaded. Weights are read from the checkpoint inside.
"""

from __future__ import annotations

import dataclasses
import os

from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.interop.google_checkpoints import read_google_checkpoint
from albert_tf.interop.model_garden import (
    FORMAT,
    find_keras_config,
    read_model_garden,
    read_reshaped,
)
from albert_tf.interop.module_configs import find_preset
from albert_tf.interop.tensorflow_checkpoints import (
    OBJECT_GRAPH,
    open_checkpoint,
    parameters,
    read_tensor,
)
from albert_tf.interop.weights import Tensor, Weights, adjacent_config

_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"


def read_saved_model(path: str) -> Weights:
    """Open the weights of an ALBERT model in a SavedModel.

    Args:
        path: local or remote folder with `saved_model.pb`: an export of this project, a module
            published on TF-Hub (TF2 or TF1), or an export of Model Garden's `AlbertEncoder`.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    prefix = os.path.join(path, "variables", "variables")
    if not exists(prefix + ".index"):
        raise InputError(f"{path}: a SavedModel without weights: {prefix}.index is missing")
    weights = _read(path, prefix)
    config = adjacent_config(os.path.join(path, "assets", ""))
    config = config or find_keras_config(path, weights) or find_preset(path, weights)
    return dataclasses.replace(weights, config=config)


def read_do_lower_case(path: str) -> bool | None:
    """Return whether the encoder in a SavedModel expects lower-cased text, if it is recorded.

    Exports of this project and of Model Garden record it in a variable. A SavedModel that cannot be
    read gives None; the error is reported when its weights are read.
    """
    try:
        reader, shapes = open_checkpoint(os.path.join(path, "variables", "variables"))
    except InputError:
        return None
    if shapes.get(_LOWER_CASE) != ():
        return None
    return bool(read_tensor(path, reader, _LOWER_CASE))


def read_object_checkpoint(prefix: str) -> Weights:
    """Open the weights of an ALBERT model in a `tf.train.Checkpoint` of Model Garden.

    Args:
        prefix: of the checkpoint, such as `bert_model.ckpt-1`. An `albert_config.json` in its
            folder is read too.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    return dataclasses.replace(_read(prefix, prefix), config=adjacent_config(prefix))


def _read(path: str, prefix: str) -> Weights:
    """Open a checkpoint in the format that its names indicate; `path` is used in errors."""
    reader, shapes = open_checkpoint(prefix)
    if OBJECT_GRAPH not in shapes:
        weights = read_google_checkpoint(prefix)
        return dataclasses.replace(weights, path=path, format=FORMAT)
    del shapes[OBJECT_GRAPH]
    if names := parameters(shapes):
        tensors = {
            name: Tensor(
                name, shapes[key], shapes[key], read_reshaped(path, reader, key, shapes[key])
            )
            for name, key in names.items()
        }
        skipped = {key: shape for key, shape in shapes.items() if key not in names.values()}
        return Weights(path, FORMAT, tensors, skipped=skipped)
    return read_model_garden(path, reader, shapes)
