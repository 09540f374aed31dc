"""Parts of the layers: activations, initializers, dropout, selection of positions, linear heads."""

from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import LAYER_NORM_EPSILON
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels

# Activations that no engine fuses, by the value of `hidden_act`; "gelu" is in `Kernels`.
_UNFUSED_ACTIVATIONS: dict[str, Callable] = {
    "gelu_exact": lambda x: ops.gelu(x, approximate=False),
    "relu": ops.relu,
}


def activation(name: str, x, bias, kernels: Kernels):
    """Compute an activation, a `hidden_act` of the config, of `x` `[..., width]` plus `bias`."""
    if name == "gelu":
        return kernels.gelu(x, bias)
    return _UNFUSED_ACTIVATIONS[name](x + bias)


def initializer(stddev: float) -> keras.initializers.Initializer:
    """Return truncated normal, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(units: int, stddev: float, name: str, dtype) -> keras.layers.Dense:
    """Return a dense layer with a kernel `[inputs, units]` and a bias that starts at zero."""
    return keras.layers.Dense(units, kernel_initializer=initializer(stddev), name=name, dtype=dtype)


def layer_norm(name: str, dtype) -> keras.layers.LayerNormalization:
    """Return layer normalization over the last axis with the original's epsilon."""
    return keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name=name, dtype=dtype)


def dropout(inputs, rate: float, seed, site: int, kernels: Kernels = PLAIN_KERNELS):
    """Drop elements of `inputs` with probability `rate` and scale up the others.

    The mask is a function of `seed` and `site` alone. A layer that the backward pass computes a
    second time, or a training step that is repeated after a restart, drops the same elements.

    Args:
        inputs: tensor of any shape.
        rate: probability in [0, 1).
        seed: integer tensor `[2]` drawn for this forward pass, or None in inference.
        site: number of this dropout within the forward pass, below `SITES`.
        kernels: plain or fused kernels.
    """
    if seed is None or rate == 0.0:
        return inputs
    return kernels.dropout(inputs, rate, fold_in(seed, site))


# Dropouts that one forward pass can tell apart.
SITES = 4096


def forward_seed(generator: keras.random.SeedGenerator):
    """Return the seed `[2]` of one forward pass; passes are `SITES` apart, so none overlap."""
    return generator.next() * ops.convert_to_tensor([1, SITES], generator.state.dtype)


def fold_in(seed, number: int):
    """Return the seed of part `number` of a computation with the seed `[2]`, if any."""
    if seed is None:
        return None
    return seed + ops.convert_to_tensor([0, number], seed.dtype)


def select(hidden, positions):
    """Return the rows of `hidden` `[batch, seq, width]` at `positions` `[batch, n]`.

    Selection is a product with one-hot rows: it is exact, and its gradient needs no scatter.
    """
    length = hidden.shape[1] or ops.shape(hidden)[1]
    rows = ops.stop_gradient(ops.one_hot(positions, length, dtype=hidden.dtype))
    return ops.matmul(rows, hidden)


class LinearHead(keras.layers.Layer):
    """Logits of a classification head, stored as in the original: weights `[outputs, inputs]`."""

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
    """Two logits per position; a class of its own since weights files of Keras contain its name."""
