"""The layers of the models, and their parts: activations, initializers, dropout, selection.

A transformer layer is as in arXiv 1706.03762, section 3, with post-layer-normalization as in BERT.
"""

from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.attention import DEFAULT, attention_weights, find_attention
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels, WeightDropout

# Activations that no engine fuses, by the value of `hidden_act`; "gelu" is in `Kernels`.
_UNFUSED_ACTIVATIONS: dict[str, Callable] = {
    "gelu_exact": lambda x: ops.gelu(x, approximate=False),
    "relu": ops.relu,
}


def activation(name: str, x, bias, kernels: Kernels):
    """Compute an activation, a `hidden_act` of the config, of `x` `[..., width]` plus `bias`."""
    return kernels.gelu(x, bias) if name == "gelu" else _UNFUSED_ACTIVATIONS[name](x + bias)


def initializer(stddev: float) -> keras.initializers.Initializer:
    """Return truncated normal, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(units: int, stddev: float, name: str, dtype, use_bias: bool = True) -> keras.layers.Dense:
    """Return a dense layer with a kernel `[inputs, units]` and a bias that starts at zero."""
    return keras.layers.Dense(units, None, use_bias, initializer(stddev), name=name, dtype=dtype)


def layer_norm(config: AlbertConfig, name: str, dtype) -> keras.layers.LayerNormalization:
    """Return layer normalization over the last axis."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name, dtype=dtype)


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


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention up to the heads' contexts (original scope `self`).

    Args:
        config: shape of the model. Kernels are `[hidden, hidden]` with heads-major columns.
        attention: a name or function as in `albert_tf.modeling.attention`.
    """

    def __init__(self, config: AlbertConfig, attention: str | Callable = DEFAULT, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.attention = find_attention(attention)
        self.query, self.key, self.value = (
            dense(config.hidden_size, config.initializer_range, name, self.dtype_policy)
            for name in ("query", "key", "value")
        )

    def build(self, input_shape):
        for projection in (self.query, self.key, self.value):
            projection.build(input_shape)

    def call(
        self, hidden, attention_mask, queries=None, seed=None, kernels: Kernels = PLAIN_KERNELS
    ):
        """Attend within each sequence; arguments as of `TransformerBlock`.

        Returns:
            `[batch, heads, queries, head_size]` for `queries` `[batch, queries, hidden_size]`, the
            positions that attend; all of `hidden` if None.
        """
        queries = hidden if queries is None else queries
        query = self._heads(self.query, queries, kernels)
        key = self._heads(self.key, hidden, kernels)
        value = self._heads(self.value, hidden, kernels)
        rate = self.config.attention_probs_dropout_prob
        # The first site of the layer's dropouts: its seed is that of the layer.
        drop = WeightDropout(rate, seed, kernels) if rate and seed is not None else None
        attend = self.attention if callable(self.attention) else kernels.attention[self.attention]
        return attend(query, key, value, attention_mask, drop)

    def weights_of(self, hidden, attention_mask):
        """Compute the attention weights, without dropout; arguments as of `TransformerBlock`.

        Returns:
            `[batch, heads, seq, seq]`; the last axis is over the attended positions and sums to 1.
        """
        query, key = self._heads(self.query, hidden), self._heads(self.key, hidden)
        return attention_weights(query, key, attention_mask)

    def projections(self, hidden, heads: int) -> list:
        """Return queries, keys and values in any number of heads, which divides `hidden_size`.

        Each is `[batch, heads, seq, head_size]` for `hidden` `[batch, seq, hidden_size]`.
        """
        project = PLAIN_KERNELS.project_heads
        layers = (self.query, self.key, self.value)
        return [project(hidden, layer.kernel, layer.bias, heads) for layer in layers]

    def _heads(self, projection: keras.layers.Dense, hidden, kernels: Kernels = PLAIN_KERNELS):
        """Project `[batch, seq, hidden_size]` to `[batch, heads, seq, head_size]`."""
        heads = self.config.num_attention_heads
        return kernels.project_heads(hidden, projection.kernel, projection.bias, heads)


class TransformerBlock(keras.layers.Layer):
    """Attention and feed-forward network, each followed by residual and layer normalization.

    Weights files of Keras contain the names of this class and its attributes.

    Args:
        config: shape of the model.
        first: the block of the first group, already built, whose attention or feed-forward network
            this one uses if `config.parameter_sharing` says so.
        attention: a name or function as in `albert_tf.modeling.attention`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        first: "TransformerBlock | None" = None,
        attention: str | Callable = DEFAULT,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = config
        policy, stddev = self.dtype_policy, config.initializer_range
        self._shares = config.parameter_sharing if first is not None else None
        if first is None or self._shares != "attention":
            self.attention = SelfAttention(config, attention, name="self", dtype=policy)
            self.attention_output = dense(config.hidden_size, stddev, "dense", policy)
            self.attention_norm = layer_norm(config, "LayerNorm", policy)
        else:
            self.attention = first.attention
            self.attention_output = first.attention_output
            self.attention_norm = first.attention_norm
        if first is None or self._shares != "ffn":
            self.intermediate = dense(config.intermediate_size, stddev, "dense", policy)
            self.ffn_output = dense(config.hidden_size, stddev, "dense", policy)
            self.ffn_norm = layer_norm(config, "LayerNorm_1", policy)
        else:
            self.intermediate = first.intermediate
            self.ffn_output = first.ffn_output
            self.ffn_norm = first.ffn_norm

    def build(self, input_shape):
        if self._shares != "attention":
            with keras.name_scope("attention_1"):
                self.attention.build(input_shape)
                with keras.name_scope("output"):
                    self.attention_output.build(input_shape)
            self.attention_norm.build(input_shape)
        if self._shares != "ffn":
            with keras.name_scope("ffn_1"), keras.name_scope("intermediate"):
                self.intermediate.build(input_shape)
                with keras.name_scope("output"):
                    self.ffn_output.build((*input_shape[:-1], self.config.intermediate_size))
            self.ffn_norm.build(input_shape)

    @property
    def matrices(self) -> list[keras.Variable]:
        """The matrices of this block, nearly all of its parameters."""
        attention = self.attention
        layers = (attention.query, attention.key, attention.value, self.attention_output)
        return [layer.kernel for layer in (*layers, self.intermediate, self.ffn_output)]

    def call(
        self, hidden, attention_mask, positions=None, seed=None, kernels: Kernels = PLAIN_KERNELS
    ):
        """Compute one layer.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            attention_mask: `[batch, seq]`, 1 for tokens and 0 for padding.
            positions: integers `[batch, n]`, where the output is needed; everywhere if None.
            seed: `[2]` seed of the dropout, None in inference.
            kernels: plain or fused kernels.

        Returns:
            `[batch, seq, hidden_size]`, or `[batch, n, hidden_size]` with `positions`.
        """
        queries = hidden if positions is None else select(hidden, positions)
        context = self.attention(hidden, attention_mask, queries, seed=seed, kernels=kernels)
        attended = kernels.merge_heads(context, self.attention_output.kernel)
        hidden = self._add_norm(
            attended, self.attention_output.bias, queries, self.attention_norm, seed, 1, kernels
        )
        fed = self._feed_forward(hidden, kernels)
        return self._add_norm(fed, self.ffn_output.bias, hidden, self.ffn_norm, seed, 2, kernels)

    def _feed_forward(self, hidden, kernels: Kernels):
        """Compute the feed-forward network without its last bias, which `_add_norm` adds."""
        kernel, bias = self.intermediate.kernel, self.intermediate.bias
        if self.config.hidden_act == "gelu":
            return kernels.feed_forward(hidden, kernel, bias, self.ffn_output.kernel)
        inner = activation(self.config.hidden_act, ops.matmul(hidden, kernel), bias, kernels)
        return ops.matmul(inner, self.ffn_output.kernel)

    def _add_norm(self, product, bias, residual, norm, seed, site: int, kernels: Kernels):
        """Compute LayerNorm(dropout(product + bias) + residual)."""
        rate = self.config.hidden_dropout_prob
        if seed is not None and rate:
            product = dropout(product + bias, rate, seed, site, kernels)
            bias = ops.zeros(bias.shape, product.dtype)
        return kernels.add_norm(product, bias, residual, norm.gamma, norm.beta, norm.epsilon)
