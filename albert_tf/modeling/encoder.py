"""AlbertEncoder: embeddings, a transformer whose layers share parameters, and the pooler.

Variable paths are the names of the original project (`bert/encoder/transformer/group_0/...`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.embeddings import AlbertEmbeddings
from albert_tf.modeling.kernels import add_norm, attention, copies
from albert_tf.modeling.layer_calls import call_layer
from albert_tf.modeling.layers import (
    activated_product,
    dense,
    dropout,
    fold_in,
    forward_seed,
    layer_norm,
    selector,
)

# What the original adds to the scores of padding before the softmax.
MASKED_SCORE = -10000.0
_SITES_PER_BLOCK = 3


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention up to the concatenated heads (original scope `self`).

    Args:
        config: shape of the model. Kernels are [hidden, hidden] with heads-major columns.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (
            dense(config.hidden_size, config.initializer_range, name, self.dtype_policy)
            for name in ("query", "key", "value")
        )

    def build(self, input_shape):
        for projection in (self.query, self.key, self.value):
            projection.build(input_shape)

    def _heads(self, tensor):
        batch, length = ops.shape(tensor)[:2]
        shape = (batch, length, self.config.num_attention_heads, self.head_size)
        return ops.transpose(ops.reshape(tensor, shape), (0, 2, 1, 3))

    def call(self, hidden, mask_scores, kernels, queries=None, seed=None):
        """Attends within each sequence.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            mask_scores: `[batch, 1, 1, seq]`, added to the scores.
            kernels: those of query, key and value.
            queries: `[batch, queries, hidden_size]`, what attends; `hidden` when absent.
            seed: `[2]` seed of the dropout, None in inference.

        Returns:
            `[batch, queries, hidden_size]`.
        """
        queries = hidden if queries is None else queries
        of_query, of_key, of_value = kernels
        query = self._heads(ops.matmul(queries, of_query) + self.query.bias)
        key = self._heads(ops.matmul(hidden, of_key) + self.key.bias)
        value = self._heads(ops.matmul(hidden, of_value) + self.value.bias)
        # Keras casts `mask_scores` on the way in.
        context = self.attend(query, key, value, ops.cast(mask_scores, "float32"), seed)
        return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), ops.shape(queries))

    def attend(self, query, key, value, mask_scores, seed):
        """The mean of the values that each query attends to.

        Args:
            query: `[batch, heads, queries, head_size]`.
            key, value: `[batch, heads, seq, head_size]`.
            mask_scores: float32 `[batch, 1, 1, seq]`.
            seed: `[2]` seed of the dropout, None in inference.

        Returns:
            `[batch, heads, queries, head_size]`.
        """

        def drop(weights):
            return dropout(weights, self.config.attention_probs_dropout_prob, seed, site=0)

        return attention(query, key, value, mask_scores, self.head_size**-0.5, drop)


class TransformerBlock(keras.layers.Layer):
    """Attention and feed-forward network, each followed by residual and layer normalisation.

    Args:
        config: shape of the model.
        first: the block of the first group, already built, whose attention or feed-forward network
            this one uses where `config.parameter_sharing` says so.
    """

    def __init__(self, config: AlbertConfig, first: TransformerBlock | None = None, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        policy, stddev = self.dtype_policy, config.initializer_range
        self._shares = config.parameter_sharing if first is not None else None
        if self._shares == "attention":
            self.attention = first.attention
            self.attention_output = first.attention_output
            self.attention_norm = first.attention_norm
        else:
            self.attention = SelfAttention(config, name="self", dtype=policy)
            self.attention_output = dense(config.hidden_size, stddev, "dense", policy)
            self.attention_norm = layer_norm("LayerNorm", policy)
        if self._shares == "ffn":
            self.intermediate = first.intermediate
            self.ffn_output = first.ffn_output
            self.ffn_norm = first.ffn_norm
        else:
            self.intermediate = dense(config.intermediate_size, stddev, "dense", policy)
            self.ffn_output = dense(config.hidden_size, stddev, "dense", policy)
            self.ffn_norm = layer_norm("LayerNorm_1", policy)

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

    def kernels(self) -> list:
        """What this block multiplies with, in the dtype that it computes in."""
        attention = self.attention
        layers = attention.query, attention.key, attention.value, self.attention_output
        layers += self.intermediate, self.ffn_output
        return [ops.cast(layer.kernel, self.compute_dtype) for layer in layers]

    def call(self, hidden, mask_scores, kernels, rows=None, seed=None):
        """One layer.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            mask_scores: `[batch, 1, 1, seq]`, added to the attention's scores.
            kernels: those of `kernels`.
            rows: the `selector` of the positions whose output is asked for; all when absent.
            seed: `[2]` seed of the dropout, None in inference.

        Returns:
            `[batch, queries, hidden_size]`.
        """
        *of_attention, of_context, of_intermediate, of_fed = kernels
        queries = hidden if rows is None else ops.matmul(rows, hidden)
        context = self.attention(hidden, mask_scores, of_attention, queries, seed=seed)
        hidden = self._add_norm(
            ops.matmul(context, of_context),
            self.attention_output.bias,
            queries,
            self.attention_norm,
            seed,
            site=1,
        )
        fed = activated_product(
            self.config.hidden_act,
            ops.matmul(hidden, of_intermediate),
            self.intermediate.bias,
            of_fed,
        )
        return self._add_norm(fed, self.ffn_output.bias, hidden, self.ffn_norm, seed, site=2)

    def _add_norm(self, product, bias, residual, norm, seed, site):
        rate = self.config.hidden_dropout_prob
        if seed is not None and rate:
            product = dropout(product + bias, rate, seed, site)
            bias = ops.zeros(bias.shape, product.dtype)
        return add_norm(product, bias, residual, norm.gamma, norm.beta)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(keras.Model):
    """The ALBERT encoder with its pooler (paper section 3.1).

    Args:
        config: shape of the model.
        name: root of the variable paths; the default is the original's.
        **kwargs: `dtype` ("float32" or "mixed_bfloat16") and other arguments of `keras.Model`.

    Example:

        encoder = AlbertEncoder(AlbertConfig.preset("base"))
        outputs = encoder({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
        outputs["pooled_output"]                 # [batch, hidden_size]
    """

    def __init__(self, config: AlbertConfig, name: str = "bert", **kwargs):
        super().__init__(name=name, **kwargs)
        self.config = config
        self.seed_generator = keras.random.SeedGenerator(0, name="dropout_seed")
        policy, stddev = self.dtype_policy, config.initializer_range
        self.embeddings = AlbertEmbeddings(config, name="embeddings", dtype=policy)
        self.projection = None
        if config.embedding_size != config.hidden_size:
            self.projection = dense(
                config.hidden_size, stddev, "embedding_hidden_mapping_in", policy
            )
        # All groups in one list: Keras before 3.15 does not save what lists in lists hold.
        self.blocks: list[TransformerBlock] = []
        inner = config.inner_group_num
        for number in range(config.num_hidden_groups * inner):
            first = self.blocks[number % inner] if number >= inner else None
            name = f"inner_group_{number % inner}"
            self.blocks.append(TransformerBlock(config, first, name=name, dtype=policy))
        self.pooler = dense(config.hidden_size, stddev, "dense", policy)
        self.build()

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build()
        with keras.name_scope("encoder"):
            if self.projection is not None:
                self.projection.build((None, None, self.config.embedding_size))
            for number, block in enumerate(self.blocks):
                group = f"group_{number // self.config.inner_group_num}"
                with keras.name_scope("transformer"), keras.name_scope(group):
                    block.build(hidden_shape)
        with keras.name_scope("pooler"):
            self.pooler.build((None, self.config.hidden_size))

    def call(self, features, training: bool = False, positions=None):
        """Encodes a batch.

        Args:
            features: dictionary with `input_ids` `[batch, seq]`; `input_mask` (1 for tokens, 0 for
                padding; all ones when absent) and `segment_ids` (zeros when absent), same shape.
            training: whether dropout acts.
            positions: `[batch, predictions]`, where the last layer's output is asked for, besides
                that at `[CLS]`; everywhere when absent. The last layer is not computed elsewhere.

        Returns:
            Dictionary of `sequence_output` `[batch, seq, hidden]`, `pooled_output`
            `[batch, hidden]` and `encoder_outputs`, the output of every block in order. With
            `positions`, `sequence_output` is `[batch, predictions, hidden]`, and `encoder_outputs`
            are those of all blocks but the last.
        """
        input_ids = features["input_ids"]
        input_mask = features.get("input_mask")
        segment_ids = features.get("segment_ids")
        input_mask = ops.ones_like(input_ids) if input_mask is None else input_mask
        segment_ids = ops.zeros_like(input_ids) if segment_ids is None else segment_ids

        seed = forward_seed(self.seed_generator) if training else None
        hidden = self.embeddings(input_ids, segment_ids, seed=seed)
        if self.projection is not None:
            hidden = self.projection(hidden)
        mask_scores = (1.0 - ops.cast(input_mask, "float32")) * MASKED_SCORE
        mask_scores = mask_scores[:, None, None, :]
        encoder_outputs = []
        for block, kernels in self._uses():
            # Site 0 is the dropout of the embeddings.
            site = 1 + _SITES_PER_BLOCK * len(encoder_outputs)
            rows = None
            if positions is not None and len(encoder_outputs) == self._depth - 1:
                rows = selector(ops.pad(positions, [[0, 0], [1, 0]]), hidden)  # with [CLS]
            hidden = call_layer(
                block, hidden, mask_scores, kernels, rows=rows, seed=fold_in(seed, site)
            )
            encoder_outputs.append(hidden)
        if positions is not None:
            encoder_outputs.pop()
        return {
            "sequence_output": hidden if positions is None else hidden[:, 1:],
            "pooled_output": ops.tanh(self.pooler(hidden[:, 0])),
            "encoder_outputs": encoder_outputs,
        }

    @property
    def _depth(self) -> int:
        return self.config.num_hidden_layers * self.config.inner_group_num

    def _uses(self) -> Iterator[tuple[TransformerBlock, Sequence]]:
        """The blocks in order, as often as they are used, with their kernels, cast once for all."""
        config = self.config
        times = config.num_hidden_layers // config.num_hidden_groups
        kernels = {
            block: zip(*(copies(kernel, times) for kernel in block.kernels()), strict=True)
            for block in self.blocks
        }
        for first in range(0, len(self.blocks), config.inner_group_num):
            for block in self.blocks[first : first + config.inner_group_num] * times:
                yield block, next(kernels[block])

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        return cls(AlbertConfig(**config.pop("config")), **config)
