"""What the blocks of the model are made of: activations, initialisers, dropout, linear heads."""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import LAYER_NORM_EPSILON
from albert_tf.modeling.kernels import gelu, gelu_product

# Of a product and the bias that is added to it.
ACTIVATIONS: dict[str, Callable] = {
    "gelu": gelu,
    "gelu_exact": lambda x, bias: ops.gelu(x + bias, approximate=False),
    "relu": lambda x, bias: ops.relu(x + bias),
}


def activated_product(activation: str, x, bias, kernel):
    """The activation of `x + bias`, `[..., width]`, times a matrix `[width, outputs]`."""
    if activation == "gelu":
        return gelu_product(x, bias, kernel)
    return ops.matmul(ACTIVATIONS[activation](x, bias), kernel)


def initializer(stddev: float) -> keras.initializers.Initializer:
    """Truncated normal, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(units: int, stddev: float, name: str, dtype) -> keras.layers.Dense:
    """A dense layer with kernel [inputs, units] and a bias that starts at zero."""
    return keras.layers.Dense(units, kernel_initializer=initializer(stddev), name=name, dtype=dtype)


def layer_norm(name: str, dtype) -> keras.layers.LayerNormalization:
    """Layer normalisation over the last axis with the original's epsilon."""
    return keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name=name, dtype=dtype)


class _DrawnSeed(keras.random.SeedGenerator):
    """Hands an already drawn seed tensor to `keras.random`, which takes only generators."""

    def __init__(self, seed):
        self._seed = seed

    def next(self, ordered=True):
        return self._seed


def dropout(inputs, rate: float, seed, site: int):
    """Drops elements of `inputs` with probability `rate` and scales up the others.

    The mask is a function of `seed` and `site` alone, so a layer that is computed again in the
    backward pass, or a training step that is repeated after a restart, drops the same elements.

    Args:
        inputs: tensor of any shape.
        rate: probability in [0, 1).
        seed: integer tensor `[2]` drawn for this forward pass, or None in inference.
        site: number of this dropout among those of the forward pass, below `SITES`.
    """
    if seed is None or rate == 0.0:
        return inputs
    return keras.random.dropout(inputs, rate, seed=_DrawnSeed(fold_in(seed, site)))


SITES = 4096


def forward_seed(generator: keras.random.SeedGenerator):
    """The seed `[2]` of one forward pass; consecutive passes are `SITES` apart, so none overlap."""
    return generator.next() * ops.convert_to_tensor([1, SITES], generator.state.dtype)


def fold_in(seed, number: int):
    """The seed of the part `number` of what `seed` is for; None stays None."""
    if seed is None:
        return None
    return seed + ops.convert_to_tensor([0, number], seed.dtype)


def selector(positions, hidden):
    """One-hot rows `[batch, n, seq]` whose product with `hidden` is what it holds at `positions`.

    Selection by a product is exact, and its gradient needs no scatter.

    Args:
        positions: `[batch, n]`.
        hidden: `[batch, seq, width]`.
    """
    length = hidden.shape[1] or ops.shape(hidden)[1]
    return ops.stop_gradient(ops.one_hot(positions, length, dtype=hidden.dtype))


class LinearHead(keras.layers.Layer):
    """Logits of a classification head, stored as the original does: weights [outputs, inputs].

    Args:
        outputs: number of logits.
        stddev: standard deviation of the initial weights.
    """

    def __init__(self, outputs: int, stddev: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.outputs = outputs
        self.stddev = stddev

    def build(self, input_shape):
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(self.outputs, input_shape[-1]),
            initializer=initializer(self.stddev),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.outputs,), initializer="zeros"
        )

    def call(self, inputs):
        """`[..., inputs]` to float32 logits `[..., outputs]`."""
        logits = ops.matmul(inputs, ops.transpose(self.output_weights)) + self.output_bias
        return ops.cast(logits, "float32")


class SpanHead(LinearHead):
    """Two logits for every position; a class of its own since weights files of Keras name it."""
