"""Muon for the matrices of the layers, AdamW for everything else."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.optimization.adamw import AdamW, matches

# Kernels of the layers, but not embeddings, their projection, the pooler and heads.
HIDDEN_KERNELS = ("(^|/)transformer/.*kernel",)

# Coefficients of the polynomial that moves singular values towards 1, and how often it is applied.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
# Root mean square of the elements of AdamW's updates (arXiv 2502.16982, section 2.2).
_RMS = 0.2


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
        orthogonalized: regular expressions; matrices whose path contains a match are updated by
            Muon.
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
        orthogonalized: Sequence[str] = HIDDEN_KERNELS,
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
        self.orthogonalized = tuple(orthogonalized)
        self.orthogonalize_in = orthogonalize_in

    def _has_variance(self, variable):
        return len(variable.shape) != 2 or not matches(self.orthogonalized, variable.path)

    def _undecayed(self, gradient, variable, index: int, rates):
        moment = self._moments[index]
        if self._variances[index] is not None:
            return super()._undecayed(gradient, variable, index, rates)
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

    Singular values below about 1e-3 of the Frobenius norm remain smaller.

    Args:
        matrix: `[rows, columns]`.
        dtype: in which it is computed.

    Returns:
        `[rows, columns]` in `dtype`; zeros for zeros.
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
