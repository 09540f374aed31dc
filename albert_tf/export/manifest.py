"""The folder of an export as a whole, and the `export.json` in it; loads no TensorFlow."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, read_json

MANIFEST = "export.json"


def sha256_of_arrays(arrays: Iterable[np.ndarray]) -> str:
    """Return the SHA-256 of the values of some arrays, one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def is_complete(export_path: str, made_from: dict[str, Any]) -> bool:
    """Return whether an export made from the same inputs, all that determine it, already exists.

    Raises:
        InputError: If the folder contains something else.
    """
    if not exists(export_path):
        return False
    if read_manifest(export_path).get("made_from") == json.loads(json.dumps(made_from)):
        return True
    raise InputError(
        f"`export_path`={export_path}: already exists and is a different export; remove it or "
        "choose another folder"
    )


def check_free(export_path: str) -> None:
    """Raise InputError if `export_path` exists and is not an export."""
    if exists(export_path) and not read_manifest(export_path):
        raise InputError(
            f"`export_path`={export_path}: already exists; remove it or choose another folder"
        )


def read_manifest(path: str) -> dict[str, Any]:
    """Return the content of an export's `export.json`; {} if there is none.

    Raises:
        InputError: If the file is damaged.
    """
    file = os.path.join(path, MANIFEST)
    return read_json(file, dict[str, Any]) if exists(file) else {}
