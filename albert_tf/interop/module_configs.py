"""Configs of modules that were published without one, by the shapes of their weights."""

from __future__ import annotations

import functools
import logging
import re

from albert_tf.config import AlbertConfig
from albert_tf.hub.names import source_of
from albert_tf.hub.published import SIZES
from albert_tf.interop.weights import Weights

logger = logging.getLogger(__name__)

_BLOCK = "bert/encoder/transformer/group_0/inner_group_0"
# Modules of version 1 of the models: google/albert_base/1, google/albert/tensorFlow1/base/1.
_FIRST_VERSION = re.compile(r"\bgoogle/albert[^?]*/1/?(\?.*)?$")


def find_preset(path: str, weights: Weights) -> AlbertConfig | None:
    """Return the config of the paper's model with these shapes; None if there is none.

    Shapes do not show dropout: version 1 of the models has it, version 2 has not. The handle from
    which a module was fetched tells; of others, version 2 is assumed.

    Args:
        path: of the module.
        weights: its weights.
    """
    source = source_of(path)
    version = 1 if source and _FIRST_VERSION.search(source.name) else 2
    table = weights.tensors.get("bert/embeddings/word_embeddings")
    if table is None:
        return None
    for size in SIZES:
        config = AlbertConfig.preset(size, version, vocab_size=table.shape[0])
        if _fits(config, weights):
            _report(path, size, version, assumed=source is None)
            return config
    return None


def _fits(config: AlbertConfig, weights: Weights) -> bool:
    width, hidden, inner = config.embedding_size, config.hidden_size, config.intermediate_size
    expected = {
        "bert/embeddings/word_embeddings": (config.vocab_size, width),
        "bert/embeddings/position_embeddings": (config.max_position_embeddings, width),
        "bert/embeddings/token_type_embeddings": (config.type_vocab_size, width),
        "bert/encoder/embedding_hidden_mapping_in/kernel": (width, hidden),
        f"{_BLOCK}/attention_1/self/query/kernel": (hidden, hidden),
        f"{_BLOCK}/ffn_1/intermediate/dense/kernel": (hidden, inner),
    }
    shapes = {name: tensor.shape for name, tensor in weights.tensors.items()}
    shared = not any("/group_1/" in name or "/inner_group_1/" in name for name in shapes)
    return shared and all(shapes.get(name) == shape for name, shape in expected.items())


@functools.cache  # weights are opened several times
def _report(path: str, size: str, version: int, assumed: bool) -> None:
    logger.info(
        "%s: has no albert_config.json; by its shapes it is %s, version %d%s",
        path,
        size,
        version,
        f" (or 1, which has dropout: albert_config_file={size}_v1)" if assumed else "",
    )
