"""Folders of an export, and what its `export.json` says; loads no TensorFlow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_text, replacing, write_text

ENCODER = "encoder"
PREPROCESS = "preprocess"
MANIFEST = "export.json"
SAVED_MODEL = "saved_model.pb"


def encoder_folder(path: str) -> str:
    """The SavedModel of the encoder, if `path` is the folder of an export; else `path`."""
    inside = os.path.join(path, ENCODER)
    is_export = not exists(os.path.join(path, SAVED_MODEL))
    return inside if is_export and exists(os.path.join(inside, SAVED_MODEL)) else path


def digest(parts: Iterable[bytes | np.ndarray]) -> str:
    """SHA-256 of some bytes and arrays."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return total.hexdigest()


def is_made(path: str, made_from: dict[str, Any]) -> bool:
    """Whether an export is there already.

    Args:
        path: of `--export_path`.
        made_from: what the export is made from, which decides what is in it.

    Raises:
        InputError: something else is there.
    """
    if not exists(path):
        return False
    if read_manifest(path).get("made_from") == json.loads(json.dumps(made_from)):
        return True
    raise InputError(
        f"--export_path={path}: exists already, and is not what this command writes; remove it or "
        "name another folder"
    )


def check_free(path: str) -> None:
    """Raises InputError if there is something that is no export."""
    if exists(path) and not read_manifest(path):
        raise InputError(f"--export_path={path}: exists already; remove it or name another folder")


def read_manifest(path: str) -> dict[str, Any]:
    """The `export.json` of an export; empty if it has none."""
    file = os.path.join(path, MANIFEST)
    if not exists(file):
        return {}
    try:
        return json.loads(read_text(file))
    except ValueError:
        return {}


@contextlib.contextmanager
def writing(path: str, manifest: dict[str, Any]) -> Iterator[str]:
    """Yields a folder to write an export to; it becomes `path` when the block ends well.

    After an error nothing is left.

    Args:
        path: of `--export_path`; is not there.
        manifest: for `export.json`.
    """
    with replacing(path) as partial:
        make_folder(partial, "export_path")
        yield partial
        write_text(os.path.join(partial, MANIFEST), json.dumps(manifest, indent=2) + "\n")
