"""Objectives of answers that are a part of a text."""

from __future__ import annotations

from keras import ops

from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels, is_correct
from albert_tf.modeling.losses import MeanObjective, Objective, example_weights


class SpanObjective(MeanObjective, part="span"):
    """Mean of the cross-entropies of `start_positions` and `end_positions` `[batch]`.

    A prediction is correct if both positions are.

    Example:
        >>> objective = albert_tf.SpanObjective()
        >>> batch = {
        ...     "input_ids": np.ones((1, 3), "int32"),
        ...     "start_positions": np.array([1]),
        ...     "end_positions": np.array([2]),
        ... }
        >>> start_logits, end_logits = np.float32([[0, 9, 0]]), np.float32([[0, 0, 9]])
        >>> outputs = {"start_logits": start_logits, "end_logits": end_logits}
        >>> float(objective.sums(outputs, batch)["span_accuracy"])
        1.0
    """

    labels = ("start_positions", "end_positions")

    def _values(self, outputs, batch, kernels):
        starts, ends = batch["start_positions"], batch["end_positions"]
        start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
        # The number of classes is the sequence length, which may be unknown when tracing.
        losses = sum(
            ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            for labels, logits in ((starts, start_logits), (ends, end_logits))
        )
        hits = is_correct(start_logits, starts) * is_correct(end_logits, ends)
        return losses * 0.5, hits


class ConditionalSpanObjective(Objective):
    """Spans as in `SpanObjective`, plus half of the cross-entropy of `is_impossible` `[batch]`.

    Ends are predicted given the true start, and so is their accuracy.

    Example:
        >>> albert_tf.ConditionalSpanObjective().losses
        ('span_loss', 'answerability_loss')
    """

    parts = ("span", "answerability")
    quantities = ("span_loss", "span_accuracy", "answerability_loss", "answerability_accuracy")
    losses = ("span_loss", "answerability_loss")
    labels = ("start_positions", "end_positions", "is_impossible")

    def weights(self, batch):
        examples = ops.sum(example_weights(batch))
        return dict.fromkeys(self.parts, examples)

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        log_probs = {
            "start_logits": outputs["start_log_probs"],
            "end_logits": outputs["end_log_probs"],
        }
        examples, logits = example_weights(batch), outputs["cls_logits"]
        impossible = ops.cast(batch["is_impossible"], "float32")
        losses = ops.binary_crossentropy(impossible, logits, from_logits=True)
        correct = ops.cast(ops.equal(logits > 0, impossible > 0), "float32")
        return {
            **SpanObjective().sums(log_probs, batch, kernels),
            "answerability_loss": ops.sum(examples * losses) * 0.5,
            "answerability_accuracy": ops.sum(examples * correct),
        }
