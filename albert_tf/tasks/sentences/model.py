"""The model of sentence vectors, an encoder whose outputs are pooled, and what it minimizes."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.losses import MISSING_CHOICE, MeanObjective


class ContrastiveObjective(MeanObjective, part="contrastive"):
    """Mean cross-entropy of the right text among those of a batch (arXiv 1705.00652, section 4.4).

    The logits of an example are the cosines of its first text with the second and, if there are
    any, third texts of all examples, divided by the temperature (arXiv 2104.08821, equation 5). Its
    own second text is the right one; its own third text is a hard negative. Left out are other
    texts that are also right: those equal to one of its first two, and the second texts of examples
    with the same first text.

    The loss of an example depends on the others of its batch, so that of a micro-batch, or of a
    device's share, is another one than that of the whole batch.

    A batch contains `label_ids`, int32 `[batch, texts]`, a number for each text, the same for equal
    texts.

    Args:
        temperature: of the softmax.
    """

    labels = ("label_ids",)

    def __init__(self, temperature: float = 0.05):
        self.temperature = temperature

    def _values(self, outputs, batch, kernels):
        vectors, ids = ops.normalize(outputs["vectors"], axis=-1), batch["label_ids"]
        query, query_ids, right_ids = vectors[:, 0], ids[:, :1], ids[:, 1:2]
        rows = ops.arange(ops.shape(ids)[0])
        own = ops.equal(rows[:, None], rows)
        parts = []
        for place in range(1, ids.shape[1]):
            logits = ops.matmul(query, ops.transpose(vectors[:, place])) / self.temperature
            also_right = ops.equal(query_ids, ids[:, place]) | ops.equal(right_ids, ids[:, place])
            if place == 1:
                also_right = (also_right | ops.equal(query_ids, ids[:, 0])) & ~own
            parts.append(ops.where(also_right, MISSING_CHOICE, logits))
        right = ops.sum(query * vectors[:, 1], axis=-1) / self.temperature
        logits = ops.concatenate(parts, axis=1)
        losses = ops.logsumexp(logits, axis=-1) - right
        correct = ops.equal(ops.cast(ops.argmax(logits, axis=-1), rows.dtype), rows)
        return losses, ops.cast(correct, "float32")


class CosineObjective(MeanObjective, part="similarity", measures=("loss",)):
    """Mean squared error of the cosine of two texts (arXiv 1908.10084, section 3).

    A batch contains `label_values`, float32 `[batch]`, what the cosines should be.
    """

    labels = ("label_values",)

    def _values(self, outputs, batch, kernels):
        vectors = ops.normalize(outputs["vectors"], axis=-1)
        cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
        return (ops.square(cosines - batch["label_values"]),)


def _mean(hidden, mask):
    """Return the mean of `[batch, seq, hidden]` over the tokens of `mask` `[batch, seq]`."""
    weights = ops.expand_dims(ops.cast(mask, "float32"), -1)
    return ops.sum(hidden * weights, axis=1) / ops.sum(weights, axis=1)


# Name -> function(hidden, mask) of a layer's output, float32.
POOLING: dict[str, Callable[[Any, Any], Any]] = {
    "mean": _mean,
    "cls": lambda hidden, mask: hidden[:, 0],
}


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

    def heads(self, encoded, features, seed, kernels):
        """Compute `vectors`, float32 `[batch, texts, hidden]`."""
        texts = ops.shape(features["input_ids"])[1]
        of_texts = self.encoder_features(features)
        mask = of_texts.get("input_mask", ops.ones_like(of_texts["input_ids"]))
        vectors = POOLING[self.pooling](ops.cast(encoded["sequence_output"], "float32"), mask)
        return {"vectors": ops.reshape(vectors, (-1, texts, vectors.shape[-1]))}

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}
