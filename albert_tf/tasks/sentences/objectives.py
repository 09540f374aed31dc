"""What training of sentence vectors minimizes."""

from __future__ import annotations

from keras import ops

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
