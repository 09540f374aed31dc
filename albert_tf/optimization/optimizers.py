"""AdamW and LAMB as in the original project, and Muon.

The first two differ from their papers (arXiv 1711.05101 and 1904.00962): no bias correction by
default, and layer normalization and biases are neither decayed nor adapted.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from albert_tf.errors import InputError
from albert_tf.optimization.variables import RateScale, checked_patterns, matches

# Layer normalization and every bias, including `output_bias`.
EXCLUDED = ("LayerNorm", "layer_norm", "bias")

# What `Lamb.update` measures over all variables.
TRUST_RATIOS = ("trust_ratio_min", "trust_ratio_median", "trust_ratio_max")

# All matrices but embeddings and the outputs of heads (`output_weights`).
HIDDEN_KERNELS = ("/kernel$",)

# Root mean square of the elements of AdamW's updates (arXiv 2502.16982, section 2.2).
_RMS = 0.2

# Coefficients of the polynomial that moves singular values towards 1, and how often it is applied.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


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
        exclude_from_weight_decay: regular expressions, or a single one; a variable whose path
            contains a match is not decayed. Keras's method of that name excludes more.
        learning_rate_scales: rows of `RateScale`. The learning rate of a variable is multiplied by
            the factor of the first row whose expression its path contains a match of; see
            `layer_decay_scales`.
        **kwargs: other arguments of `keras.optimizers.Optimizer`, but for `weight_decay`.

    Raises:
        InputError: If there is a `weight_decay`, which Keras would add to `weight_decay_rate`, or
            an expression is invalid.

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
        exclude_from_weight_decay: str | Sequence[str] = EXCLUDED,
        learning_rate_scales: Iterable[tuple[str, float] | tuple[str, float, int]] = (),
        name: str = "adamw",
        **kwargs,
    ):
        if kwargs.get("weight_decay") is not None:
            raise InputError(f"`weight_decay`={kwargs['weight_decay']}: use `weight_decay_rate`")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.undecayed = checked_patterns("exclude_from_weight_decay", exclude_from_weight_decay)
        self.learning_rate_scales: tuple[Any, ...] = tuple(map(tuple, learning_rate_scales))
        checked_patterns("learning_rate_scales", [row[0] for row in self.learning_rate_scales])

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
        self._decayed = [
            self._use_weight_decay(v) and not matches(self.undecayed, v.path) for v in variables
        ]
        scales = [RateScale(*row) for row in (*self.learning_rate_scales, ("", 1.0))]
        self._rate_scales = [
            next(row for row in scales if matches([row.pattern], v.path)) for v in variables
        ]

    def apply(self, grads, trainable_variables=None):
        """Apply gradients, as `keras.optimizers.Optimizer.apply` does.

        As in the engines, a missing gradient, of a variable that the loss does not depend on, is
        zero, and the variable is decayed. Repeated rows of TensorFlow's sparse gradient of an
        embedding are summed before its norm is computed.
        """
        given = trainable_variables
        variables = list(self._trainable_variables if given is None else given)
        grads = [_dense(gradient, each) for gradient, each in zip(grads, variables, strict=True)]
        super().apply(grads, None if given is None else variables)

    def update_step(self, gradient, variable, learning_rate):  # of `apply`
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
        b1, b2 = self.beta_1, self.beta_2
        rates = _Rates(learning_rate, b1, 1.0 - b1, b2, 1.0 - b2)
        if applies is None:
            return rates
        # A learning rate without a schedule is a variable, which JAX's `where` does not accept.
        rates = rates._replace(learning_rate=ops.convert_to_tensor(learning_rate))
        nothing = _Rates(0.0, 1.0, 0.0, 1.0, 0.0)
        return _Rates(
            *(ops.where(applies, rate, none) for rate, none in zip(rates, nothing, strict=True))
        )

    def _move(self, gradient, variable, rates: _Rates):
        """Update a variable and its moments; return the factor of its update."""
        rates = _Rates(*(ops.cast(rate, variable.dtype) for rate in rates))
        index = self._get_variable_index(variable)
        update = self._undecayed(ops.cast(gradient, variable.dtype), variable, index, rates)
        if self._decayed[index]:
            update = update + self.weight_decay_rate * variable
        scale = self._scale(update, variable, index)
        learning_rate = rates.learning_rate
        _, factor, start = self._rate_scales[index]
        if factor != 1.0:
            learning_rate = learning_rate * factor
        if start:
            learning_rate = learning_rate * ops.cast(self.iterations >= start, variable.dtype)
        self.assign_sub(variable, learning_rate * scale * update)
        return scale

    def _measure(self, scales: list) -> dict[str, Any]:
        return {}

    def _has_variance(self, variable) -> bool:
        return True

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
        return 1.0

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "exclude_from_weight_decay": list(self.undecayed),
            "learning_rate_scales": [list(row) for row in self.learning_rate_scales],
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(AdamW):
    """AdamW with every variable's update scaled to the norm of the variable.

        w = w - learning_rate * trust_ratio * u        trust_ratio = ||w|| / ||u||

    with `u` as in `AdamW`, including weight decay. The trust ratio is 1 if either norm is 0.

    Args:
        learning_rate: a number or a schedule of the step.
        exclude_from_layer_adaptation: regular expressions, or a single one; a variable whose path
            contains a match has trust ratio 1. By default those excluded from weight decay.
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
        exclude_from_layer_adaptation: str | Sequence[str] | None = None,
        name: str = "lamb",
        **kwargs,
    ):
        super().__init__(learning_rate, name=name, **kwargs)
        patterns = exclude_from_layer_adaptation
        self.exclude_from_layer_adaptation = checked_patterns(
            "exclude_from_layer_adaptation", self.undecayed if patterns is None else patterns
        )

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


@keras.saving.register_keras_serializable(package="albert_tf")
class Muon(AdamW):
    """Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

    The update of a matrix is its momentum with all singular values moved close to 1, at the scale
    of AdamW's (arXiv 2502.16982), so that one learning rate and one weight decay suit both:

        m = beta_1 m + (1 - beta_1) g
        u = 0.2 sqrt(max(rows, columns)) orthogonalize(beta_1 m + (1 - beta_1) g)
        w = w - learning_rate (u + weight_decay_rate w)

    Other variables are updated as by `AdamW`, with bias correction.

    Args:
        learning_rate: a number or a schedule of the step.
        beta_1, beta_2: decay rates of the moments.
        bias_correction: of the moments of the other variables.
        orthogonalized: regular expressions, or a single one; matrices whose path contains a match
            are updated by Muon.
        orthogonalize_in: dtype in which they are orthogonalized; bfloat16 is enough, and faster
            where the processor has it.
        **kwargs: other arguments of `AdamW`.

    Example:
        >>> kernel = keras.Variable([[3.0, 0.0], [0.0, 4.0]])
        >>> optimizer = albert_tf.Muon(0.1, weight_decay_rate=0.0, orthogonalized=[""])
        >>> optimizer.apply([np.float32([[1, 0], [0, 100]])], [kernel])
        >>> moved = keras.ops.convert_to_numpy(kernel) - np.float32([[3, 0], [0, 4]])
        >>> bool(moved[0, 0] < -0.015 and moved[1, 1] < -0.015)  # about -0.1 * 0.2 * sqrt(2)
        True
    """

    def __init__(
        self,
        learning_rate=2e-3,
        beta_1: float = 0.95,
        beta_2: float = 0.98,
        bias_correction: bool = True,
        orthogonalized: str | Sequence[str] = HIDDEN_KERNELS,
        orthogonalize_in: str = "float32",
        name: str = "muon",
        **kwargs,
    ):
        super().__init__(
            learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            bias_correction=bias_correction,
            name=name,
            **kwargs,
        )
        self.orthogonalized = checked_patterns("orthogonalized", orthogonalized)
        self.orthogonalize_in = orthogonalize_in

    def _has_variance(self, variable):
        return len(variable.shape) != 2 or not matches(self.orthogonalized, variable.path)

    def _undecayed(self, gradient, variable, index: int, rates):
        if self._variances[index] is not None:
            return super()._undecayed(gradient, variable, index, rates)
        moment = self._moments[index]
        new_moment = rates.keep_1 * moment + rates.add_1 * gradient
        self.assign(moment, new_moment)
        nesterov = rates.keep_1 * new_moment + rates.add_1 * gradient
        update = orthogonalize(nesterov, self.orthogonalize_in)
        return _RMS * max(variable.shape) ** 0.5 * ops.cast(update, variable.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "orthogonalized": list(self.orthogonalized),
            "orthogonalize_in": self.orthogonalize_in,
        }


def orthogonalize(matrix, dtype: str = "float32"):
    """Return a matrix with the same singular vectors and singular values between 0.7 and 1.2.

    Singular values below about 1e-3 of the Frobenius norm remain smaller, and zeros stay zeros. It
    is computed, and returned, in `dtype`.
    """
    a, b, c = _NEWTON_SCHULZ
    norm = ops.norm(matrix)
    x = ops.cast(matrix / ops.where(norm > 0, norm, 1.0), dtype)
    rows, columns = matrix.shape
    if rows > columns:
        x = ops.transpose(x)
    for _ in range(_ITERATIONS):
        gram = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    return ops.transpose(x) if rows > columns else x


def _dense(gradient, variable):
    zeros = ops.zeros(variable.shape, variable.dtype)
    if gradient is None:
        return zeros
    return ops.add(zeros, gradient) if hasattr(gradient, "indices") else gradient
