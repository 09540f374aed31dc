"""The SavedModels in the folder of an export; loads no TensorFlow."""

from __future__ import annotations

import os

from albert_tf.files import exists

ENCODER = "encoder"
PREPROCESS = "preprocess"
SAVED_MODEL = "saved_model.pb"


def encoder_folder(path: str) -> str:
    """Returns the SavedModel of the encoder if `path` is an export, and `path` otherwise."""
    inside = os.path.join(path, ENCODER)
    is_export = not exists(os.path.join(path, SAVED_MODEL))
    return inside if is_export and exists(os.path.join(inside, SAVED_MODEL)) else path
