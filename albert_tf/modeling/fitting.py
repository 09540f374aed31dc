"""How Keras's own `compile`, `fit`, `evaluate` and `predict` work with the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from keras import ops

from albert_tf.errors import InputError
from albert_tf.modeling.inputs import renamed
from albert_tf.modeling.losses import Objective

# Outputs of the encoder, which `predict` leaves out: for 10,000 texts of 512 tokens, all layers of
# base take 200 GB.
_ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs")


class KerasTraining:
    """Mixin that lets `fit` pair the labels with the heads' outputs.

    Without `loss`, a model is trained with the loss of its objective, as the commands do. A `loss`
    and metrics of Keras compare the labels with the outputs named in `targets`.

    Attributes:
        objectives: the loss is that of the first objective of which all labels are given.
        targets: label -> output that predicts it. Labels in a list or tuple have this order.
    """

    objectives: ClassVar[tuple[Objective, ...]] = ()
    targets: ClassVar[dict[str, str]] = {"label_ids": "logits"}

    def target_of(self, labels) -> str:
        """The name of labels that `fit` gets as an array, where the model has a single output.

        Args:
            labels: the array, or a batch of it.
        """
        return next(iter(self.targets))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss of a batch, as `keras.Model.compute_loss`.

        `sample_weight` `[batch]` weights the examples; the loss of an objective is their weighted
        mean.

        Raises:
            InputError: labels are missing or unknown.
        """
        # Heads that do not read the pooled output give the pooler a gradient of zero, as engines
        # do. Without one, Keras on TensorFlow warns and leaves the pooler out of weight decay.
        nothing = 0.0 * ops.sum(ops.cast(y_pred["pooled_output"], "float32"))
        return self._loss(x, y, y_pred, sample_weight, training) + nothing

    def _loss(self, x, y, y_pred, sample_weight, training):
        if self.loss is not None:  # type: ignore[attr-defined]
            y, y_pred = self._paired(x, y, y_pred)
            return super().compute_loss(  # type: ignore[misc]
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
            )
        batch = {**renamed(x), **self._named(y)}
        if sample_weight is not None:
            if isinstance(sample_weight, (Mapping, list, tuple)):
                raise InputError(
                    "`sample_weight`: must be one array [batch], unless `compile` gets a `loss`"
                )
            batch["is_real_example"] = ops.reshape(sample_weight, (-1,))
        objective = self._objective(batch)
        return objective.loss(objective.sums(y_pred, batch), objective.weights(batch))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates the metrics, as `keras.Model.compute_metrics`."""
        if self._compile_metrics is not None:  # type: ignore[attr-defined]
            y, y_pred = self._paired(x, y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)  # type: ignore[misc]

    def predict_step(self, *args):
        """One step of `predict`, which returns the outputs of the heads only."""
        results = super().predict_step(*args)  # type: ignore[misc]
        if isinstance(results, tuple):  # on JAX, variables follow the outputs
            outputs, *state = results
            return _of_heads(outputs), *state
        return _of_heads(results)

    def _named(self, y) -> dict[str, Any]:
        """The labels by name."""
        if y is None:
            return {}
        by_output = {output: label for label, output in self.targets.items()}
        if isinstance(y, Mapping):
            if len(by_output) < len(self.targets) and set(y) & set(by_output):
                return {self.target_of(values): values for values in y.values()}
            return {str(by_output.get(n, n)): values for n, values in y.items()}
        if isinstance(y, (list, tuple)):
            if len(y) != len(self.targets):
                raise InputError(f"`y`: contains {len(y)} arrays, but must be {self._wanted}")
            return dict(zip(self.targets, y, strict=True))
        if len(by_output) > 1:
            raise InputError(f"`y`: is one array, but must be {self._wanted}")
        name = self.target_of(y)
        is_column = name != "label_sets" and len(y.shape) == 2 and y.shape[1] == 1
        return {name: ops.reshape(y, (-1,)) if is_column else y}

    def _paired(self, x, y, y_pred):
        """Labels and the outputs that predict them: two tensors, or dictionaries by output."""
        labels = {**renamed(x), **self._named(y)}
        paired = {
            output: labels[label] for label, output in self.targets.items() if label in labels
        }
        if not paired:
            raise InputError(f"`y`: must be {self._wanted}")
        if len(set(self.targets.values())) == 1:
            ((output, values),) = paired.items()
            return values, y_pred[output]
        return paired, {output: y_pred[output] for output in paired}

    def _objective(self, batch: Mapping[str, Any]) -> Objective:
        for objective in self.objectives:
            if all(name in batch for name in objective.labels):
                return objective
        needed = " or ".join(", ".join(objective.labels) for objective in self.objectives)
        if not needed:
            raise InputError(f"`loss`: must be given to `compile`, as {self._kind} has no own loss")
        raise InputError(f"`y`: the loss of {self._kind} needs {needed}")

    @property
    def _wanted(self) -> str:
        """Describes valid labels."""
        return f"{self._kind}'s labels {', '.join(self.targets)}, in this order or by name"

    @property
    def _kind(self) -> str:
        return type(self).__name__


def _of_heads(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in outputs.items() if name not in _ENCODER_OUTPUTS}
