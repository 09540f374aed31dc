"""AdamW as in the original project.

It differs from its paper (arXiv 1711.05101): no bias correction by default, and layer normalization
and biases are not decayed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

# Layer normalization and every bias, including `output_bias`.
EXCLUDED = ("LayerNorm", "layer_norm", "bias")


class _Rates(NamedTuple):
    """Scalars of one update: moment = keep * moment + add * gradient, for either moment."""

    learning_rate: Any
    keep_1: Any
    add_1: Any
    keep_2: Any
    add_2: Any


@keras.saving.register_keras_serializable(package="albert_tf")
class AdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay (arXiv 1711.05101), as in BERT and ALBERT.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        u = m / (sqrt(v) + epsilon) + weight_decay_rate w        w = w - learning_rate u

    Args:
        learning_rate: a number or a schedule of the step.
        weight_decay_rate: decay of the variables that are not excluded.
        beta_1, beta_2: decay rates of the moments.
        epsilon: added outside of the square root.
        bias_correction: whether to divide the moments by (1 - beta^t), as in Adam's paper but not
            in BERT.
        exclude_from_weight_decay: regular expressions; a variable whose path contains a match is
            not decayed.
        learning_rate_scales: pairs of a regular expression and a factor. The learning rate of a
            variable is multiplied by the factor of the first expression that its path contains a
            match of; see `layer_decay_scales`.

    Example:
        >>> kernel = keras.Variable([1.0, 1.0])
        >>> optimizer = albert_tf.AdamW(0.1, weight_decay_rate=0.0, bias_correction=True)
        >>> optimizer.apply([np.float32([3, -5])], [kernel])
        >>> [round(float(weight), 4) for weight in keras.ops.convert_to_numpy(kernel)]
        [0.9, 1.1]
    """

    def __init__(
        self,
        learning_rate=1e-4,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        exclude_from_weight_decay: Sequence[str] = EXCLUDED,
        learning_rate_scales: Sequence[tuple[str, float]] = (),
        name: str = "adamw",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.learning_rate_scales = tuple((str(p), float(s)) for p, s in learning_rate_scales)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._moments, self._variances = [], []
        for variable in variables:
            self._moments.append(self.add_variable_from_reference(variable, "adam_m"))
            variance = None
            if self._has_variance(variable):
                variance = self.add_variable_from_reference(variable, "adam_v")
            self._variances.append(variance)
        self._decayed = [not matches(self.exclude_from_weight_decay, v.path) for v in variables]
        self._rate_scales = [self._rate_scale(v.path) for v in variables]

    def apply(self, grads, trainable_variables=None):
        """Apply gradients, as `keras.optimizers.Optimizer.apply` does.

        As in the engines, a missing gradient, of a variable that the loss does not depend on, is
        zero, and the variable is decayed. Repeated rows of TensorFlow's sparse gradient of an
        embedding are summed before its norm is computed.
        """
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        variables = list(variables)
        grads = [_dense(gradient, each) for gradient, each in zip(grads, variables, strict=True)]
        super().apply(grads, None if trainable_variables is None else variables)

    def update_step(self, gradient, variable, learning_rate):
        self._move(gradient, variable, self._rates(learning_rate))

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the scalars that `update` returns; available once the optimizer is built."""
        return ()

    def update(self, gradients: Sequence, applies=None) -> dict[str, Any]:
        """Apply gradients that are already reduced over replicas, in the order of `build`.

        Unlike `apply`, it does not reduce them again and can be called anywhere in a replica's
        program. The caller advances `iterations`.

        Args:
            gradients: dense and finite, one per variable.
            applies: boolean scalar; if false, variables and moments keep their exact values. This
                needs no branch, so it is free and works with any compiler.

        Returns:
            The `measures` of this update, float32 scalars.
        """
        rates = self._rates(self.learning_rate, applies)
        scales = [
            self._move(gradient, variable, rates)
            for gradient, variable in zip(gradients, self._trainable_variables, strict=True)
        ]
        return self._measure(scales)

    def _rates(self, learning_rate, applies=None) -> _Rates:
        rates = _Rates(
            learning_rate, self.beta_1, 1.0 - self.beta_1, self.beta_2, 1.0 - self.beta_2
        )
        if applies is None:
            return rates
        # A learning rate without a schedule is a variable, which JAX's `where` does not accept.
        rates = rates._replace(learning_rate=ops.convert_to_tensor(learning_rate))
        nothing = _Rates(0.0, 1.0, 0.0, 1.0, 0.0)
        return _Rates(
            *(ops.where(applies, rate, none) for rate, none in zip(rates, nothing, strict=True))
        )

    def _move(self, gradient, variable, rates: _Rates):
        """Update a variable and its moments; return the factor of its learning rate."""
        rates = _Rates(*(ops.cast(rate, variable.dtype) for rate in rates))
        index = self._get_variable_index(variable)
        update = self._direction(gradient, variable, index, rates)
        scale = self._scale(update, variable, index)
        learning_rate = rates.learning_rate
        if self._rate_scales[index] != 1.0:
            learning_rate = learning_rate * self._rate_scales[index]
        self.assign_sub(variable, learning_rate * scale * update)
        return scale

    def _rate_scale(self, path: str) -> float:
        """Return the factor of the learning rate of the variable `path`."""
        factors = (
            factor for pattern, factor in self.learning_rate_scales if matches([pattern], path)
        )
        return next(factors, 1.0)

    def _measure(self, scales: list) -> dict[str, Any]:
        """`measures` by name; `scales` are the variables' factors of the learning rate."""
        return {}

    def _has_variance(self, variable) -> bool:
        """Return whether the second moment of a variable's gradient is needed."""
        return True

    def _direction(self, gradient, variable, index: int, rates: _Rates):
        """Return the update before the learning rate; also updates the moments."""
        update = self._undecayed(ops.cast(gradient, variable.dtype), variable, index, rates)
        if self._decayed[index]:
            update = update + self.weight_decay_rate * variable
        return update

    def _undecayed(self, gradient, variable, index: int, rates: _Rates):
        """Return the update without weight decay; also updates the moments."""
        dtype = variable.dtype
        moment, variance = self._moments[index], self._variances[index]
        new_moment = rates.keep_1 * moment + rates.add_1 * gradient
        new_variance = rates.keep_2 * variance + rates.add_2 * ops.square(gradient)
        self.assign(moment, new_moment)
        self.assign(variance, new_variance)
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, dtype)
            new_moment = new_moment / (1.0 - ops.power(ops.cast(self.beta_1, dtype), step))
            new_variance = new_variance / (1.0 - ops.power(ops.cast(self.beta_2, dtype), step))
        return new_moment / (ops.sqrt(new_variance) + self.epsilon)

    def _scale(self, update, variable, index: int):
        """Return factor of the learning rate for this variable."""
        return 1.0

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "exclude_from_weight_decay": list(self.exclude_from_weight_decay),
            "learning_rate_scales": [list(pair) for pair in self.learning_rate_scales],
        }


def _dense(gradient, variable):
    """Return the gradient of a variable as a tensor; zeros if there is none."""
    zeros = ops.zeros(variable.shape, variable.dtype)
    if gradient is None:
        return zeros
    return ops.add(zeros, gradient) if hasattr(gradient, "indices") else gradient


def matches(patterns: Sequence[str], path: str) -> bool:
    """Return whether any regular expression is found in `path`."""
    return any(re.search(pattern, path) for pattern in patterns)
