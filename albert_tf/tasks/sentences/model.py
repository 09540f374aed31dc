"""The model: an encoder whose outputs are pooled to a vector for each text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.tasks.sentences.objectives import ContrastiveObjective, CosineObjective


def _mean(hidden, mask):
    """Return the mean of `[batch, seq, hidden]` over the tokens of `mask` `[batch, seq]`."""
    weights = ops.expand_dims(ops.cast(mask, "float32"), -1)
    return ops.sum(hidden * weights, axis=1) / ops.sum(weights, axis=1)


def _cls(hidden, mask):
    """Return the vector at `[CLS]`."""
    return hidden[:, 0]


# Name -> function(hidden, mask) of a layer's output, float32.
POOLING: dict[str, Callable[[Any, Any], Any]] = {"mean": _mean, "cls": _cls}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForSentences(EncoderModel):
    """Computes a vector for each of several texts per example; it has no variables of its own.

    Args:
        config: shape of the model.
        pooling: a key of `POOLING`.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.
    """

    encoder_rank = 3
    objectives = (ContrastiveObjective(), CosineObjective())
    targets = {"label_ids": "vectors", "label_values": "vectors"}

    def __init__(
        self,
        config: AlbertConfig,
        pooling: str = "mean",
        name: str = "albert_for_sentences",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.pooling = pooling

    def encoder_features(self, features):
        """Return the features of the encoder, `[batch * texts, seq]`."""
        return {
            name: ops.reshape(values, (-1, ops.shape(values)[-1]))
            for name, values in super().encoder_features(features).items()
        }

    def heads(self, encoded, features, seed, kernels):
        """Compute `vectors`, float32 `[batch, texts, hidden]`."""
        texts = ops.shape(features["input_ids"])[1]
        of_texts = self.encoder_features(features)
        mask = of_texts.get("input_mask", ops.ones_like(of_texts["input_ids"]))
        vectors = POOLING[self.pooling](ops.cast(encoded["sequence_output"], "float32"), mask)
        return {"vectors": ops.reshape(vectors, (-1, texts, vectors.shape[-1]))}

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}
