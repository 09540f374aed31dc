"""Encoded examples, cached in files.

The name of a file is a hash of everything that its content depends on, so it is never out of date:
other text, another vocabulary or another setting gives another file.
"""

import hashlib
import io
import json
import logging
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.files import exists, make_folder, open_file, sha256_of, write_bytes

logger = logging.getLogger(__name__)

# Must be raised when the same text is encoded differently.
VERSION = 1

Arrays = dict[str, np.ndarray]


def cached_arrays(
    folder: str,
    sources: Sequence[str | bytes],
    settings: Mapping[str, Any],
    make: Callable[[], Arrays],
    name: str = "examples",
) -> Arrays:
    """Return what `make` returns, or its cached copy in `folder`.

    Files are written completely or not at all; a damaged one is reported and replaced.

    Args:
        folder: of the cache.
        sources: what the content depends on, the examples and the vocabulary: paths of files, or
            bytes.
        settings: everything else that it depends on, the kind of task included; must be
            serializable as JSON.
        make: returns arrays by name, of any dtype except objects.
        name: beginning of the name of the file.

    Raises:
        InputError: If the folder cannot be written.
    """
    path = cached_file(folder, sources, settings, name)
    if exists(path):
        try:
            with open_file(path, "rb") as file:
                kept = io.BytesIO(file.read())
            with np.load(kept, allow_pickle=False) as arrays:  # which checks their checksums
                return {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            logger.warning("%s is damaged and will be replaced: %s", path, error)
    make_folder(folder, "cached_dir")
    made = make()
    content = io.BytesIO()
    np.savez(content, **made)  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())
    return made


def cached_file(
    folder: str, sources: Sequence[str | bytes], settings: Mapping[str, Any], name: str
) -> str:
    """Return the path of the copy of `cached_arrays`, which may not exist."""
    digest = hashlib.sha256(json.dumps([VERSION, settings], sort_keys=True).encode())
    for source in sources:
        if isinstance(source, str):
            digest.update(bytes.fromhex(sha256_of(source)))
        else:
            digest.update(hashlib.sha256(source).digest())
    return f"{folder}/{name}-{digest.hexdigest()[:32]}.npz"
