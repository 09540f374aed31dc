"""LAMB as in the original project.

It differs from its paper (arXiv 1904.00962): no bias correction by default, and layer normalization
and biases are neither decayed nor adapted.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.optimization.adamw import EXCLUDED, AdamW, matches

# What `Lamb.update` measures over all variables.
TRUST_RATIOS = ("trust_ratio_min", "trust_ratio_median", "trust_ratio_max")


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(AdamW):
    """AdamW with every variable's update scaled to the norm of the variable.

        w = w - learning_rate * trust_ratio * u        trust_ratio = ||w|| / ||u||

    with `u` as in `AdamW`, including weight decay. The trust ratio is 1 if either norm is 0.

    Args:
        learning_rate: a number or a schedule of the step.
        exclude_from_layer_adaptation: regular expressions; a variable whose path contains a match
            has trust ratio 1. By default the variables that are excluded from weight decay.
        **kwargs: other arguments of `AdamW`.

    Example:
        >>> kernel = keras.Variable([3.0, 4.0])  # of length 5
        >>> optimizer = albert_tf.Lamb(learning_rate=0.1)
        >>> optimizer.apply([np.float32([1, -1])], [kernel])
        >>> round(float(keras.ops.norm(kernel - np.float32([3, 4]))), 4)  # a tenth of that length
        0.5
    """

    def __init__(
        self,
        learning_rate=1e-3,
        exclude_from_weight_decay: Sequence[str] = EXCLUDED,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "lamb",
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            exclude_from_weight_decay=exclude_from_weight_decay,
            name=name,
            **kwargs,
        )
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = exclude_from_weight_decay
        self.exclude_from_layer_adaptation = tuple(exclude_from_layer_adaptation)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._adapted = [not matches(self.exclude_from_layer_adaptation, v.path) for v in variables]

    @property
    def measures(self) -> tuple[str, ...]:
        """Trust ratios over the adapted variables; empty if no variable is adapted."""
        return TRUST_RATIOS if any(self._adapted) else ()

    def _measure(self, scales: list):
        if not self.measures:
            return {}
        ratios = [scale for scale, adapted in zip(scales, self._adapted, strict=True) if adapted]
        ratios = ops.sort(ops.stack([ops.cast(ratio, "float32") for ratio in ratios]))
        last = sum(self._adapted) - 1
        median = (ratios[last // 2] + ratios[(last + 1) // 2]) / 2
        return dict(zip(TRUST_RATIOS, (ratios[0], median, ratios[last]), strict=True))

    def _scale(self, update, variable, index: int):
        """Return the trust ratio."""
        if not self._adapted[index]:
            return 1.0
        norm, update_norm = ops.norm(variable), ops.norm(update)
        usable = ops.logical_and(norm > 0, update_norm > 0)
        # The inner `where` keeps the division defined on the branch that is not taken.
        return ops.where(usable, norm / ops.where(usable, update_norm, 1.0), 1.0)

    def get_config(self):
        return {
            **super().get_config(),
            "exclude_from_layer_adaptation": list(self.exclude_from_layer_adaptation),
        }
