"""Weights of SavedModels and object-based checkpoints: ours, TF-Hub's and Model Garden's.

The functions in a SavedModel are never loaded. Weights are read from the checkpoint inside. Modules
that were published without a config are recognized by the shapes of their weights.
"""

import dataclasses
import functools
import logging
import os
import re

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.checkpoints.tensorflow import OBJECT_GRAPH, open_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.hub.names import source_of
from albert_tf.hub.published import SIZES
from albert_tf.interop.google import read_google_checkpoint
from albert_tf.interop.model_garden import FORMAT, find_keras_config, fits, read_model_garden
from albert_tf.weights import Weights, adjacent_config

logger = logging.getLogger(__name__)

# Modules of version 1 of the models: google/albert_base/1, google/albert/tensorFlow1/base/1.
_FIRST_VERSION = re.compile(r"\bgoogle/albert[^?]*/1/?(\?.*)?$")


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


def read_object_checkpoint(prefix: str) -> Weights:
    """Open the weights of an ALBERT model in a `tf.train.Checkpoint` of Model Garden.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    return dataclasses.replace(_read(prefix, prefix), config=adjacent_config(prefix))


def _read(path: str, prefix: str) -> Weights:
    """Open a checkpoint in the format that its names indicate; `path` is used in errors."""
    reader, found = open_checkpoint(prefix)
    if OBJECT_GRAPH not in found:
        weights = read_google_checkpoint(prefix)
    elif any(name.startswith("params/") for name in found):
        weights = TensorFlowFolder(os.path.dirname(prefix)).read(prefix)
    else:
        del found[OBJECT_GRAPH]
        return read_model_garden(path, reader, found)
    return dataclasses.replace(weights, path=path, format=FORMAT)


def find_preset(path: str, weights: Weights) -> AlbertConfig | None:
    """Return the config of the paper's model with these shapes; None if there is none.

    Shapes do not show dropout: version 1 of the models has it, version 2 has not. The handle from
    which a module was fetched tells; of others, version 2 is assumed.
    """
    source = source_of(path)
    version = 1 if source and _FIRST_VERSION.search(source.name) else 2
    table = weights.tensors.get("bert/embeddings/word_embeddings")
    if table is None:
        return None
    for size in SIZES:
        config = AlbertConfig.preset(size, version, vocab_size=table.shape[0])
        if fits(config, weights):
            _report(path, size, version, assumed=source is None)
            return config
    return None


@functools.cache  # weights are opened several times
def _report(path: str, size: str, version: int, assumed: bool) -> None:
    logger.info(
        "%s: has no albert_config.json; by its shapes it is %s, version %d%s",
        path,
        size,
        version,
        f" (or 1, which has dropout: albert_config_file={size}_v1)" if assumed else "",
    )
