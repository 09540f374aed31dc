"""The vocabulary in a folder of weights, and what is recorded of it."""

from __future__ import annotations

import dataclasses
import os

from albert_tf.files import exists, matches, read_json
from albert_tf.hub.names import VOCABULARY_FILES

CONFIG_FILE = "tokenizer_config.json"


@dataclasses.dataclass(frozen=True)
class _TokenizerConfig:
    do_lower_case: bool | None = None


def find_vocabulary(folder: str) -> str | None:
    """Returns the vocabulary in a folder, or in the assets of the SavedModel that it is.

    The first pattern that matches exactly one file decides.
    """
    for place in (folder, os.path.join(folder, "assets")):
        for pattern in VOCABULARY_FILES:
            found = matches(os.path.join(place, pattern))
            if len(found) == 1:
                return found[0]
    return None


def read_lower_case(folder: str) -> bool | None:
    """Returns whether text is lower-cased, if a `tokenizer_config.json` in a folder records it.

    Raises:
        InputError: if the file is damaged.
    """
    path = os.path.join(folder, CONFIG_FILE)
    return read_json(path, _TokenizerConfig).do_lower_case if exists(path) else None
