"""Token, position and segment embeddings at width E (paper section 3.1, factorized embedding)."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import dropout, initializer, layer_norm


class AlbertEmbeddings(keras.layers.Layer):
    """Sum of the three embeddings, layer-normalized, with dropout.

    Args:
        config: shape of the model.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm("LayerNorm", self.dtype_policy)

    def build(self, input_shape=None):
        def table(name, rows):
            return self.add_weight(
                name=name,
                shape=(rows, self.config.embedding_size),
                initializer=initializer(self.config.initializer_range),
            )

        self.word_embeddings = table("word_embeddings", self.config.vocab_size)
        self.token_type_embeddings = table("token_type_embeddings", self.config.type_vocab_size)
        self.position_embeddings = table("position_embeddings", self.config.max_position_embeddings)
        self.norm.build((None, None, self.config.embedding_size))

    def call(self, input_ids, segment_ids, seed=None):
        """Embed a batch.

        Args:
            input_ids: token ids, integers `[batch, seq]`.
            segment_ids: segment ids, integers `[batch, seq]`.
            seed: `[2]` seed of the dropout, None in inference.

        Returns:
            `[batch, seq, embedding_size]`.
        """
        words = ops.take(self.word_embeddings, input_ids, axis=0)
        # There are few segment ids; a product with one-hot rows has a dense gradient.
        segments = ops.matmul(
            ops.one_hot(segment_ids, self.config.type_vocab_size, dtype=self.compute_dtype),
            self.token_type_embeddings,
        )
        positions = self.position_embeddings[: input_ids.shape[1] or ops.shape(input_ids)[1]]
        embeddings = self.norm(words + segments + positions)
        return dropout(embeddings, self.config.hidden_dropout_prob, seed, site=0)
