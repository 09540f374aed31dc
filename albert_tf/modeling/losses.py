"""Training objectives as weighted sums, exact over any split of a batch.

For a batch, an objective computes the total *weights* of its parts (`{"masked_lm": 77.0, ...}`),
which need no model. For the model's outputs, it computes the weighted *sums* of its quantities
(`{"masked_lm_loss": 310.2, "masked_lm_accuracy": 12.0, ...}`); the name of a quantity begins with
its part. Sums and weights of micro-batches and replicas add up, and their quotients are the means
over the whole batch, however unevenly the masked positions are distributed.
"""

import abc
import math
from typing import Any

from keras import ops

from albert_tf.errors import InputError
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels
from albert_tf.pair_objectives import PAIR_OBJECTIVES


def example_weights(batch):
    """Return the weight of every example, 0 for padding of the last batch; float32 `[batch]`."""
    names = [name for name in ("is_real_example", "example_weights") if name in batch]
    if not names:
        return ops.ones(ops.shape(batch["input_ids"])[:1], dtype="float32")
    return math.prod(ops.cast(batch[name], "float32") for name in names)


class Objective(abc.ABC):
    """Base class of the objectives.

    Attributes:
        parts: names of the parts, each of which has a weight of its own.
        quantities: names of the sums, each a part followed by "_loss" or "_accuracy".
        losses: the quantities whose means add up to the training loss.
        epsilon: by part, what is added to its weight before a loss is divided by it.
        labels: what a batch must contain, besides the model's outputs. Optional are
            `is_real_example` and `example_weights` `[batch]`, which weight the examples.

    Example:
        >>> class SquaredHinge(albert_tf.Objective):
        ...     parts, quantities, losses = ("hinge",), ("hinge_loss",), ("hinge_loss",)
        ...
        ...     def weights(self, batch):
        ...         return {"hinge": float(len(batch["sign"]))}
        ...
        ...     def sums(self, outputs, batch):
        ...         margins = keras.ops.relu(1 - batch["sign"] * outputs["logits"][:, 0])
        ...         return {"hinge_loss": keras.ops.sum(margins**2)}
        >>> objective = SquaredHinge()
        >>> outputs, batch = {"logits": np.float32([[2], [0]])}, {"sign": np.float32([1, -1])}
        >>> float(objective.loss(objective.sums(outputs, batch), objective.weights(batch)))
        0.5
    """

    parts: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    epsilon: dict[str, float] = {}
    labels: tuple[str, ...] = ()

    @abc.abstractmethod
    def weights(self, batch) -> dict:
        """Total weight of each part in a batch, float32 scalars."""

    @abc.abstractmethod
    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS) -> dict:
        """Weighted sum of each quantity over a batch.

        Args:
            outputs: the model's, by name.
            batch: features and labels, by name.
            kernels: plain or fused kernels, of which `score` is of use.
                Engines pass their own to objectives that take this argument.

        Returns:
            float32 scalars by quantity.
        """

    def predictions(self, outputs) -> dict:
        """Return what reports show of the outputs, arrays `[batch, ...]` by name; here nothing."""
        return {}

    def loss(self, sums: dict, weights: dict):
        """Return the loss, given `sums` of any part and `weights` of the whole global batch."""
        return sum(
            sums[name] / (weights[part_of(name)] + self.epsilon.get(part_of(name), 0.0))
            for name in self.losses
        )


def part_of(quantity: str) -> str:
    """Return the part of the model that a quantity is of: "masked_lm" of "masked_lm_loss"."""
    return quantity.rsplit("_", 1)[0]


def means(sums: dict, weights: dict) -> dict[str, float]:
    """Return the mean of every quantity; 0 if its weight is 0."""
    return {
        name: float(total) / float(weights[part_of(name)]) if weights[part_of(name)] else 0.0
        for name, total in sums.items()
    }


def _pair_weights(batch):
    """Return the weights of pairs: `[batch]`, or of rows `[batch, examples]`."""
    examples = example_weights(batch)
    weights = batch.get("next_sentence_weights")
    if weights is None and "cls_positions" in batch:
        raise InputError("`batch`: rows have next_sentence_weights, [batch, examples]; got none")
    return examples if weights is None else weights * examples[:, None]


class PretrainingObjective(Objective):
    """Masked language model plus a task on pairs: sum(w * nll) / (sum(w) + 1e-5), and a mean.

    A batch contains `masked_lm_ids` and `masked_lm_weights` `[batch, predictions]` and
    `next_sentence_labels` `[batch, 1]`; of rows of several examples,
    `next_sentence_labels` and `next_sentence_weights` `[batch, examples]`.

    Args:
        pair_objective: "sop" (are the segments in order), "nsp" (is the second one from the same
            document), "none" (no pairs) or another of `PAIR_OBJECTIVES`. All have the same head and
            loss; only their names differ.
        characters: of each token of the vocabulary, integers `[vocab]`, -1 if unknown. With them,
            `characters_loss` is the sum over masked tokens, whose weight is their characters, and
            `characters_accuracy` the share of their characters in tokens predicted right; they are
            measured, but not learned.

    Example:
        >>> objective = albert_tf.PretrainingObjective("sop")
        >>> objective.losses
        ('masked_lm_loss', 'sentence_order_loss')
    """

    epsilon = {"masked_lm": 1e-5}

    def __init__(self, pair_objective: str = "sop", characters: Any = None):
        self.pair_objective = pair_objective
        part = PAIR_OBJECTIVES[pair_objective].part
        self._pair_parts = (part,) if part else ()
        self.parts = ("masked_lm", *self._pair_parts)
        measures = ("loss", "accuracy")
        self.quantities = tuple(f"{part}_{measure}" for part in self.parts for measure in measures)
        self.losses = tuple(f"{part}_loss" for part in self.parts)
        self._characters = characters
        if characters is not None:
            self.parts += ("characters",)
            self.quantities += ("characters_loss", "characters_accuracy")
        pairs = ("next_sentence_labels",) if self._pair_parts else ()
        self.labels = ("masked_lm_ids", "masked_lm_weights", *pairs)

    def weights(self, batch):
        masked = batch["masked_lm_weights"] * example_weights(batch)[:, None]
        pairs = {part: ops.sum(_pair_weights(batch)) for part in self._pair_parts}
        weights = {"masked_lm": ops.sum(masked), **pairs}
        if self._characters is not None:
            weights["characters"] = ops.sum(masked * ops.maximum(self._counts(batch), 0.0))
        return weights

    def _counts(self, batch):
        """Return the characters of masked tokens, float32 `[batch, predictions]`."""
        return ops.take(ops.cast(self._characters, "float32"), batch["masked_lm_ids"])

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        masked = batch["masked_lm_weights"] * example_weights(batch)[:, None]
        losses, hits = kernels.score(outputs["masked_lm_logits"], batch["masked_lm_ids"])
        sums = {
            "masked_lm_loss": ops.sum(masked * losses),
            "masked_lm_accuracy": ops.sum(masked * hits),
        }
        if self._characters is not None:
            counts = self._counts(batch)
            is_known = ops.cast(counts >= 0, "float32")
            sums["characters_loss"] = ops.sum(masked * losses * is_known)
            sums["characters_accuracy"] = ops.sum(masked * hits * ops.maximum(counts, 0.0))
        for part in self._pair_parts:
            labels, weights = batch["next_sentence_labels"], _pair_weights(batch)
            labels = labels if "next_sentence_weights" in batch else labels[:, 0]
            losses, hits = kernels.score(outputs["sentence_order_logits"], labels)
            sums[f"{part}_loss"] = ops.sum(weights * losses)
            sums[f"{part}_accuracy"] = ops.sum(weights * hits)
        return sums

    def predictions(self, outputs):
        """Return the most probable tokens, `masked_lm_ids` `[batch, predictions]`."""
        ids = ops.argmax(outputs["masked_lm_logits"], axis=-1)
        return {"masked_lm_ids": ops.cast(ids, "int32")}


class MeanObjective(Objective):
    """One part, whose loss, and mostly accuracy, is the mean over all examples.

    A subclass names the part: `class RegressionObjective(MeanObjective, part="regression")`.
    """

    def __init_subclass__(cls, part: str = "", measures: tuple[str, ...] = ("loss", "accuracy")):
        if part:
            cls.parts = (part,)
            cls.quantities = tuple(f"{part}_{measure}" for measure in measures)
            cls.losses = cls.quantities[:1]

    def weights(self, batch):
        return {self.parts[0]: ops.sum(self._weights(batch))}

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        weights, values = self._weights(batch), self._values(outputs, batch, kernels)
        return {
            quantity: ops.sum(weights * value)
            for quantity, value in zip(self.quantities, values, strict=True)
        }

    def _weights(self, batch):
        return example_weights(batch)

    @abc.abstractmethod
    def _values(self, outputs, batch, kernels: Kernels) -> tuple:
        """Return the quantities of each example, in the shape of their weights, `[batch]`."""


# In `label_ids`: no label, so no part of the loss.
NO_LABEL = -1


class ClassesObjective(MeanObjective):
    """Base class of objectives of classes, which may be taught by another model.

    A batch may contain `label_probabilities` `[batch, classes]`, float32, which then replace
    `label_ids` in the loss, and `teacher_probabilities`, those of a teacher at the temperature T.
    With these, the loss of a prediction is (arXiv 1503.02531)

        teacher_weight * T^2 * cross_entropy(teacher_probabilities, softmax(logits / T))
        + (1 - teacher_weight) * cross_entropy of the label, if there is one

    and where there is no label, the teacher's counts as correct.

    Args:
        teacher_weight: of the teacher's part.
        temperature: T, by which logits are divided in the teacher's part.
    """

    def __init__(self, teacher_weight: float = 0.5, temperature: float = 2.0):
        self.teacher_weight = teacher_weight
        self.temperature = temperature

    labels = ("label_ids",)

    def _values(self, outputs, batch, kernels):
        logits, labels = outputs["logits"], batch["label_ids"]
        taught = batch.get("teacher_probabilities")
        labeled = labels >= 0
        if taught is not None:
            labels = ops.where(labeled, labels, ops.cast(ops.argmax(taught, -1), labels.dtype))
        labels = ops.maximum(labels, 0)
        losses, hits = kernels.score(logits, labels)
        if "label_probabilities" in batch:
            losses = _soft_cross_entropy(logits, batch["label_probabilities"])
        if taught is not None:
            soft_losses = _soft_cross_entropy(logits / self.temperature, taught)
            losses = (1 - self.teacher_weight) * ops.where(labeled, losses, 0.0)
            losses += self.teacher_weight * self.temperature**2 * soft_losses
        return losses, hits


def _soft_cross_entropy(logits, probabilities):
    return -ops.sum(probabilities * ops.log_softmax(logits, axis=-1), axis=-1)


class ClassificationObjective(ClassesObjective, part="classification"):
    """Mean cross-entropy of `label_ids` `[batch]`, or as in `ClassesObjective`.

    Example:
        >>> objective = albert_tf.ClassificationObjective()
        >>> batch = {"input_ids": np.ones((2, 4), "int32"), "label_ids": np.array([0, 2])}
        >>> outputs = {"logits": np.float32([[9, 0, 0], [9, 0, 0]])}
        >>> sums, weights = objective.sums(outputs, batch), objective.weights(batch)
        >>> float(sums["classification_accuracy"] / weights["classification"])
        0.5
    """


# Score of a missing choice: far below any other, and finite, so that no gradient is NaN.
MISSING_CHOICE = -1e9


class MultipleChoiceObjective(ClassesObjective, part="multiple_choice"):
    """Mean cross-entropy of `label_ids` `[batch]` over the choices, or as in `ClassesObjective`.

    A batch may contain `choice_mask` `[batch, choices]`, 0 for the padding of examples that have
    fewer choices than others, which is ignored.

    Example:
        >>> objective = albert_tf.MultipleChoiceObjective()
        >>> batch = {
        ...     "input_ids": np.ones((1, 3, 4), "int32"),
        ...     "label_ids": np.array([1]),
        ...     "choice_mask": np.array([[1, 1, 0]]),
        ... }
        >>> outputs = {"logits": np.float32([[0, 1, 9]])}  # the third choice is padding
        >>> float(objective.sums(outputs, batch)["multiple_choice_accuracy"])
        1.0
    """

    def _values(self, outputs, batch, kernels):
        logits = outputs["logits"]
        if "choice_mask" in batch:
            logits = ops.where(batch["choice_mask"] > 0, logits, MISSING_CHOICE)
        return super()._values({"logits": logits}, batch, kernels)


class TokenClassificationObjective(ClassesObjective, part="token_classification"):
    """Mean cross-entropy over the labeled tokens of a batch, or as in `ClassesObjective`.

    A batch contains `label_ids`, int32 `[batch, at least seq]`: the label of each token, or a
    negative number for a token without one (`[CLS]`, padding, the rest of a word). The
    `teacher_probabilities` `[batch, at least seq, labels]` of these are 0.
    """

    def _weights(self, batch):
        counted = batch["label_ids"] >= 0
        if "teacher_probabilities" in batch:
            taught = ops.sum(batch["teacher_probabilities"], axis=-1) > 0
            counted = ops.logical_or(counted, taught)
        return ops.cast(counted, "float32") * example_weights(batch)[:, None]

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        # Batches are padded to their longest sequence, labels to the longest of all.
        length = ops.shape(outputs["logits"])[1]
        names = [name for name in ("label_ids", "teacher_probabilities") if name in batch]
        labels = {name: batch[name][:, :length] for name in names}
        return super().sums(outputs, {**batch, **labels}, kernels)


class RegressionObjective(MeanObjective, part="regression", measures=("loss",)):
    """Mean squared error of the only logit against `label_values` `[batch]` float32.

    Example:
        >>> objective = albert_tf.RegressionObjective()
        >>> batch = {"input_ids": np.ones((2, 4), "int32"), "label_values": np.float32([1, 2])}
        >>> outputs = {"logits": np.float32([[1], [4]])}
        >>> float(objective.loss(objective.sums(outputs, batch), objective.weights(batch)))
        2.0
    """

    labels = ("label_values",)

    def _values(self, outputs, batch, kernels):
        return (ops.square(outputs["logits"][:, 0] - batch["label_values"]),)


class MultiLabelObjective(MeanObjective, part="multi_label"):
    """Mean binary cross-entropy, over examples and labels, of `label_sets` `[batch, labels]`.

    `label_sets` is float32, 1 for each label that an example has and 0 for the others.

    Example:
        >>> objective = albert_tf.MultiLabelObjective()
        >>> label_sets = np.float32([[1, 0, 1, 0]])
        >>> batch = {"input_ids": np.ones((1, 4), "int32"), "label_sets": label_sets}
        >>> outputs = {"logits": np.float32([[3, -3, -3, -3]])}  # the third label is missed
        >>> float(objective.sums(outputs, batch)["multi_label_accuracy"])
        0.75
    """

    labels = ("label_sets",)

    def _values(self, outputs, batch, kernels):
        labels, logits = batch["label_sets"], outputs["logits"]
        # -log of the probability that the sigmoid of the logit assigns to the truth.
        losses = ops.softplus(logits) - labels * logits
        correct = ops.cast(ops.equal(logits >= 0, labels > 0.5), "float32")
        return ops.mean(losses, axis=-1), ops.mean(correct, axis=-1)
