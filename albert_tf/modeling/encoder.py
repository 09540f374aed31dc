"""AlbertEncoder: embeddings, a transformer whose layers share parameters, and the pooler.

Variable paths are the names of the original project (`bert/encoder/transformer/group_0/...`).
"""

from __future__ import annotations

import dataclasses

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.embeddings import AlbertEmbeddings
from albert_tf.modeling.layers import (
    ACTIVATIONS,
    dense,
    dropout,
    fold_in,
    forward_seed,
    layer_norm,
)
from albert_tf.modeling.remat import call_layer

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

    def call(self, hidden, mask_scores, seed=None):
        """Attends within each sequence.

        Args:
            hidden: `[batch, seq, hidden_size]`.
            mask_scores: `[batch, 1, 1, seq]`, added to the scores.
            seed: `[2]` seed of the dropout, None in inference.

        Returns:
            `[batch, seq, hidden_size]`.
        """
        query = self._heads(self.query(hidden)) * (self.head_size**-0.5)
        key = self._heads(self.key(hidden))
        value = self._heads(self.value(hidden))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        # The softmax is float32 under bfloat16, too; Keras casts `mask_scores` on the way in.
        scores = ops.cast(scores, "float32") + ops.cast(mask_scores, "float32")
        probabilities = ops.softmax(scores)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        rate = self.config.attention_probs_dropout_prob
        probabilities = dropout(probabilities, rate, seed, site=0)
        context = ops.transpose(ops.matmul(probabilities, value), (0, 2, 1, 3))
        return ops.reshape(context, ops.shape(hidden))


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
        self.activation = ACTIVATIONS[config.hidden_act]
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

    def call(self, hidden, mask_scores, seed=None):
        """`[batch, seq, hidden_size]` to the same shape; arguments as in `SelfAttention`."""
        rate = self.config.hidden_dropout_prob
        attended = self.attention_output(self.attention(hidden, mask_scores, seed=seed))
        hidden = self.attention_norm(hidden + dropout(attended, rate, seed, site=1))
        fed = self.ffn_output(self.activation(self.intermediate(hidden)))
        return self.ffn_norm(hidden + dropout(fed, rate, seed, site=2))


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

    def _blocks_of(self, layer: int) -> list[TransformerBlock]:
        """The blocks of a layer: those of its group."""
        layers_per_group = self.config.num_hidden_layers // self.config.num_hidden_groups
        inner = self.config.inner_group_num
        first = layer // layers_per_group * inner
        return self.blocks[first : first + inner]

    def call(self, features, training: bool = False):
        """Encodes a batch.

        Args:
            features: dictionary with `input_ids` `[batch, seq]`; `input_mask` (1 for tokens, 0 for
                padding; all ones when absent) and `segment_ids` (zeros when absent), same shape.
            training: whether dropout acts.

        Returns:
            Dictionary of `sequence_output` `[batch, seq, hidden]`, `pooled_output`
            `[batch, hidden]` and `encoder_outputs`, the output of every block in order.
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
        for layer in range(self.config.num_hidden_layers):
            for block in self._blocks_of(layer):
                # Site 0 is the dropout of the embeddings.
                site = 1 + _SITES_PER_BLOCK * len(encoder_outputs)
                hidden = call_layer(block, hidden, mask_scores, seed=fold_in(seed, site))
                encoder_outputs.append(hidden)
        return {
            "sequence_output": hidden,
            "pooled_output": ops.tanh(self.pooler(hidden[:, 0])),
            "encoder_outputs": encoder_outputs,
        }

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        return cls(AlbertConfig(**config.pop("config")), **config)
