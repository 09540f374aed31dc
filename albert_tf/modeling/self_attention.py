"""Multi-head self-attention (arXiv 1706.03762, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.modeling.attention import (
    DEFAULT,
    attention_weights,
    dot_product_attention,
    get_attention,
)
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels
from albert_tf.modeling.layers import dense, dropout


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention up to the heads' contexts (original scope `self`).

    Args:
        config: shape of the model. Kernels are `[hidden, hidden]` with heads-major columns.
        attention: a name or function as in `albert_tf.modeling.attention`.
    """

    def __init__(self, config: AlbertConfig, attention: str | Callable = DEFAULT, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.attend = get_attention(attention)
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
        """Attends within each sequence.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            attention_mask: `[batch, seq]`, 1 for tokens and 0 for padding.
            queries: `[batch, queries, hidden_size]`, the positions that attend; all of `hidden`
                if None.
            seed: `[2]` seed of the dropout, None in inference.
            ops: operations; the engine's attention is used in place of the default one only.

        Returns:
            `[batch, heads, queries, head_size]`.
        """
        queries = hidden if queries is None else queries
        query = self._heads(self.query, queries, kernels)
        key = self._heads(self.key, hidden, kernels)
        value = self._heads(self.value, hidden, kernels)
        rate = self.config.attention_probs_dropout_prob

        def drop(weights):
            return dropout(weights, rate, seed, site=0, kernels=kernels)

        attend = kernels.attention if self.attend is dot_product_attention else self.attend
        has_dropout = seed is not None and rate > 0
        return attend(query, key, value, attention_mask, drop if has_dropout else None)

    def weights_of(self, hidden, attention_mask):
        """The attention weights, without dropout.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            attention_mask: `[batch, seq]`, 1 for tokens and 0 for padding.

        Returns:
            `[batch, heads, seq, seq]`; the last axis is over the attended positions and sums to 1.
        """
        query, key = self._heads(self.query, hidden), self._heads(self.key, hidden)
        return attention_weights(query, key, attention_mask)

    def _heads(self, projection: keras.layers.Dense, hidden, kernels: Kernels = PLAIN_KERNELS):
        """Projects `[batch, seq, hidden_size]` to `[batch, heads, seq, head_size]`."""
        heads = self.config.num_attention_heads
        return kernels.project_heads(hidden, projection.kernel, projection.bias, heads)
