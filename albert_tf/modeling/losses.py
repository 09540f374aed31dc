"""Training objectives as weighted sums, exact over any split of a batch.

For a batch, an objective computes the total *weights* of its parts (`{"masked_lm": 77.0, ...}`),
which need no model. For the model's outputs, it computes the weighted *sums* of its quantities
(`{"masked_lm_loss": 310.2, "masked_lm_accuracy": 12.0, ...}`); the name of a quantity begins with
its part. Sums and weights of micro-batches and replicas add up, and their quotients are the means
over the whole batch, however unevenly the masked positions are distributed.
"""

from __future__ import annotations

import abc

from keras import ops

from albert_tf.modeling.ops import PLAIN_OPS


def _correct(logits, labels):
    """1 where the prediction is correct, else 0; float32."""
    predictions = ops.cast(ops.argmax(logits, axis=-1), labels.dtype)
    return ops.cast(ops.equal(predictions, labels), "float32")


def _example_weights(batch):
    """1 for an example, 0 for padding of the last batch; float32 `[batch]`."""
    if "is_real_example" in batch:
        return ops.cast(batch["is_real_example"], "float32")
    return ops.ones(ops.shape(batch["input_ids"])[:1], dtype="float32")


class Objective(abc.ABC):
    """Base class of the objectives.

    Attributes:
        parts: names of the parts, each of which has a weight of its own.
        quantities: names of the sums, each a part followed by "_loss" or "_accuracy".
        losses: the quantities whose means add up to the training loss.
        epsilon: by part, what is added to its weight before a loss is divided by it.
    """

    parts: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    epsilon: dict[str, float] = {}

    @abc.abstractmethod
    def weights(self, batch) -> dict:
        """Total weight of each part in a batch, float32 scalars."""

    @abc.abstractmethod
    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy) -> dict:
        """Weighted sum of each quantity over a batch.

        Args:
            outputs: the model's, by name.
            batch: features and labels, by name.
            cross_entropy: `cross_entropy(logits, labels)`, plain or fused, as in
                `albert_tf.modeling.ops.Ops`. Engines pass their own to objectives that take it.

        Returns:
            float32 scalars by quantity.
        """

    def loss(self, sums: dict, weights: dict):
        """The training loss, given `sums` of any part and `weights` of the whole global batch."""
        return sum(
            sums[name] / (weights[part_of(name)] + self.epsilon.get(part_of(name), 0.0))
            for name in self.losses
        )


def part_of(quantity: str) -> str:
    """ "masked_lm_loss" -> "masked_lm"."""
    return quantity.rsplit("_", 1)[0]


def means(sums: dict, weights: dict) -> dict[str, float]:
    """The mean of every quantity; 0 if its weight is 0."""
    return {
        name: float(total) / float(weights[part_of(name)]) if weights[part_of(name)] else 0.0
        for name, total in sums.items()
    }


# Value of `pair_objective` -> parts of the pretraining objective.
PAIR_PARTS = {"sop": ("sentence_order",), "nsp": ("next_sentence",), "none": ()}


class PretrainingObjective(Objective):
    """Masked language model plus a task on pairs: sum(w * nll) / (sum(w) + 1e-5), and a mean.

    A batch contains `masked_lm_ids` and `masked_lm_weights` `[batch, predictions]` and
    `next_sentence_labels` `[batch, 1]`.

    Args:
        pair_objective: "sop" (are the segments in order), "nsp" (is the second one from the same
            document) or "none" (no pairs). Both tasks have the same head and loss; only their
            names differ.
    """

    epsilon = {"masked_lm": 1e-5}

    def __init__(self, pair_objective: str = "sop"):
        self.pair_objective = pair_objective
        self._pair_parts = PAIR_PARTS[pair_objective]
        self.parts = ("masked_lm", *self._pair_parts)
        measures = ("loss", "accuracy")
        self.quantities = tuple(f"{part}_{measure}" for part in self.parts for measure in measures)
        self.losses = tuple(f"{part}_loss" for part in self.parts)

    def weights(self, batch):
        examples = _example_weights(batch)
        masked = ops.sum(batch["masked_lm_weights"] * examples[:, None])
        pairs = {part: ops.sum(examples) for part in self._pair_parts}
        return {"masked_lm": masked, **pairs}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        examples = _example_weights(batch)
        masked = batch["masked_lm_weights"] * examples[:, None]
        ids, logits = batch["masked_lm_ids"], outputs["masked_lm_logits"]
        sums = {
            "masked_lm_loss": ops.sum(masked * cross_entropy(logits, ids)),
            "masked_lm_accuracy": ops.sum(masked * _correct(logits, ids)),
        }
        for part in self._pair_parts:
            labels = batch["next_sentence_labels"][:, 0]
            logits = outputs["sentence_order_logits"]
            sums[f"{part}_loss"] = ops.sum(examples * cross_entropy(logits, labels))
            sums[f"{part}_accuracy"] = ops.sum(examples * _correct(logits, labels))
        return sums


class ClassificationObjective(Objective):
    """Mean cross-entropy of `label_ids` `[batch]`."""

    parts = ("classification",)
    quantities = ("classification_loss", "classification_accuracy")
    losses = ("classification_loss",)

    def weights(self, batch):
        return {"classification": ops.sum(_example_weights(batch))}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        examples, labels = _example_weights(batch), batch["label_ids"]
        return {
            "classification_loss": ops.sum(examples * cross_entropy(outputs["logits"], labels)),
            "classification_accuracy": ops.sum(examples * _correct(outputs["logits"], labels)),
        }


# Score of a missing choice: far below any other, and finite, so that no gradient is NaN.
MISSING_CHOICE = -1e9


class MultipleChoiceObjective(Objective):
    """Mean cross-entropy of `label_ids` `[batch]` over the choices of each example.

    A batch contains `choice_mask` `[batch, choices]`, 0 for the padding of examples that have fewer
    choices than others, which is ignored.
    """

    parts = ("multiple_choice",)
    quantities = ("multiple_choice_loss", "multiple_choice_accuracy")
    losses = ("multiple_choice_loss",)

    def weights(self, batch):
        return {"multiple_choice": ops.sum(_example_weights(batch))}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        examples, labels = _example_weights(batch), batch["label_ids"]
        logits = ops.where(batch["choice_mask"] > 0, outputs["logits"], MISSING_CHOICE)
        return {
            "multiple_choice_loss": ops.sum(examples * cross_entropy(logits, labels)),
            "multiple_choice_accuracy": ops.sum(examples * _correct(logits, labels)),
        }


class RegressionObjective(Objective):
    """Mean squared error of the only logit against `label_values` `[batch]` float32."""

    parts = ("regression",)
    quantities = ("regression_loss",)
    losses = ("regression_loss",)

    def weights(self, batch):
        return {"regression": ops.sum(_example_weights(batch))}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        errors = ops.square(outputs["logits"][:, 0] - batch["label_values"])
        return {"regression_loss": ops.sum(_example_weights(batch) * errors)}


class MultiLabelObjective(Objective):
    """Mean binary cross-entropy, over examples and labels, of `label_sets` `[batch, labels]`.

    `label_sets` is float32, 1 for each label that an example has and 0 for the others.
    """

    parts = ("multi_label",)
    quantities = ("multi_label_loss", "multi_label_accuracy")
    losses = ("multi_label_loss",)

    def weights(self, batch):
        return {"multi_label": ops.sum(_example_weights(batch))}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        examples, labels, logits = _example_weights(batch), batch["label_sets"], outputs["logits"]
        # -log of the probability that the sigmoid of the logit assigns to the truth.
        losses = ops.softplus(logits) - labels * logits
        correct = ops.cast(ops.equal(logits >= 0, labels > 0.5), "float32")
        return {
            "multi_label_loss": ops.sum(examples * ops.mean(losses, axis=-1)),
            "multi_label_accuracy": ops.sum(examples * ops.mean(correct, axis=-1)),
        }


class SpanObjective(Objective):
    """Mean of the cross-entropies of `start_positions` and `end_positions` `[batch]`.

    A prediction is correct if both positions are.
    """

    parts = ("span",)
    quantities = ("span_loss", "span_accuracy")
    losses = ("span_loss",)

    def weights(self, batch):
        return {"span": ops.sum(_example_weights(batch))}

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        starts, ends = batch["start_positions"], batch["end_positions"]
        start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
        # The number of classes is the sequence length, which may be unknown when tracing.
        losses = sum(
            ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            for labels, logits in ((starts, start_logits), (ends, end_logits))
        )
        correct = _correct(start_logits, starts) * _correct(end_logits, ends)
        examples = _example_weights(batch)
        return {
            "span_loss": ops.sum(examples * losses) * 0.5,
            "span_accuracy": ops.sum(examples * correct),
        }


class ConditionalSpanObjective(Objective):
    """Spans as in `SpanObjective`, plus half of the cross-entropy of `is_impossible` `[batch]`.

    Ends are predicted given the true start, and so is their accuracy.
    """

    parts = ("span", "answerability")
    quantities = ("span_loss", "span_accuracy", "answerability_loss", "answerability_accuracy")
    losses = ("span_loss", "answerability_loss")

    def weights(self, batch):
        examples = ops.sum(_example_weights(batch))
        return dict.fromkeys(self.parts, examples)

    def sums(self, outputs, batch, cross_entropy=PLAIN_OPS.cross_entropy):
        log_probs = {
            "start_logits": outputs["start_log_probs"],
            "end_logits": outputs["end_log_probs"],
        }
        examples, logits = _example_weights(batch), outputs["cls_logits"]
        impossible = ops.cast(batch["is_impossible"], "float32")
        losses = ops.binary_crossentropy(impossible, logits, from_logits=True)
        correct = ops.cast(ops.equal(logits > 0, impossible > 0), "float32")
        return {
            **SpanObjective().sums(log_probs, batch),
            "answerability_loss": ops.sum(examples * losses) * 0.5,
            "answerability_accuracy": ops.sum(examples * correct),
        }
