"""Where parameters, operations and memory of a model are, by formula; loads no framework.

Parameters are those of `AlbertForPreTraining`: the encoder with its pooler, and the two heads of
pretraining. Operations are counted as in `albert_tf.flops`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from albert_tf.config import AlbertConfig

# Bytes per parameter in float32 training: the weight, its gradient, and the two moments that LAMB
# and AdamW keep.
MEMORY = {"weights": 4, "gradients": 4, "optimizer": 8}


class Part(NamedTuple):
    """A part of a model.

    Attributes:
        name: of the part.
        parameters: number of its parameters, shared ones counted once.
        flops: operations of the forward pass of one sequence, shared parameters counted at every
            use.
    """

    name: str
    parameters: int
    flops: int

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps per parameter; activations are not counted."""
        return {name: bytes * self.parameters for name, bytes in MEMORY.items()}


def parts_of(config: AlbertConfig, length: int, predictions: int) -> list[Part]:
    """Divides a model into parts.

    Args:
        config: shape of the model.
        length: length of a sequence in tokens; the encoder computes all of its positions.
        predictions: number of positions at which the masked-LM head predicts tokens.
    """
    e, h, i, v = (
        config.embedding_size,
        config.hidden_size,
        config.intermediate_size,
        config.vocab_size,
    )
    inner = config.inner_group_num
    blocks = inner * config.num_hidden_layers
    attentions = inner * _own(config, "attention")
    feed_forwards = inner * _own(config, "ffn")
    has_projection = e != h
    positions = config.max_position_embeddings + config.type_vocab_size
    return [
        Part("token embeddings", v * e, 0),
        Part("position and segment embeddings", positions * e, 0),
        Part("projection", has_projection * (e * h + h), has_projection * 2 * length * e * h),
        Part(
            "attention",
            attentions * 4 * (h * h + h),
            blocks * (4 * 2 * length * h * h + 2 * 2 * length * length * h),
        ),
        Part(
            "feed-forward",
            feed_forwards * (h * i + i + i * h + h),
            blocks * 2 * 2 * length * h * i,
        ),
        Part("layer norms", 2 * e + (attentions + feed_forwards) * 2 * h, 0),
        Part("pooler", h * h + h, 2 * h * h),
        Part("masked-LM head", h * e + e + 2 * e + v, predictions * (2 * h * e + 2 * e * v)),
        Part("sentence-order head", 2 * h + 2, 2 * 2 * h),
    ]


# The parts of `parts_of` that are heads; the others are counted by `AlbertConfig.parameter_count`.
HEADS = ("masked-LM head", "sentence-order head")


def _own(config: AlbertConfig, half: str) -> int:
    """How many layers have parameters of their own for one half of a layer."""
    return 1 if config.parameter_sharing == half else config.num_hidden_groups


def bert_of(config: AlbertConfig) -> AlbertConfig:
    """The BERT of the same shape: embeddings of width H, and own parameters in every layer."""
    return dataclasses.replace(
        config,
        embedding_size=config.hidden_size,
        num_hidden_groups=config.num_hidden_layers,
        parameter_sharing="none",
    )


def embedding_parameters(config: AlbertConfig) -> int:
    """Parameters between a token id and the first layer: the token table, and the projection."""
    e, h = config.embedding_size, config.hidden_size
    return config.vocab_size * e + (e * h + h if e != h else 0)
