"""The models: an encoder under the heads of a task."""

from __future__ import annotations

import dataclasses

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.layer_calls import prunes
from albert_tf.modeling.layers import (
    ACTIVATIONS,
    SITES,
    LinearHead,
    SpanHead,
    dense,
    dropout,
    forward_seed,
    layer_norm,
    selector,
)


class MaskedLMHead(keras.layers.Layer):
    """Vocabulary logits at the masked positions, decoded with the tied embedding table.

    Args:
        config: shape of the model.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config.embedding_size, config.initializer_range, "dense", self.dtype_policy
        )
        self.activation = ACTIVATIONS[config.hidden_act]
        self.norm = layer_norm("LayerNorm", self.dtype_policy)

    def build(self, input_shape):
        with keras.name_scope("transform"):
            self.dense.build(input_shape)
            self.norm.build((*input_shape[:-1], self.config.embedding_size))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    def call(self, hidden, word_embeddings):
        """Predicts tokens.

        Args:
            hidden: `[batch, predictions, hidden]`, the encoder's output where tokens are predicted.
            word_embeddings: `[vocab, embedding_size]` table of the encoder.

        Returns:
            `[batch, predictions, vocab]` float32 logits.
        """
        hidden = self.activation(ops.matmul(hidden, self.dense.kernel), self.dense.bias)
        table = ops.cast(word_embeddings, self.compute_dtype)
        logits = ops.matmul(self.norm(hidden), ops.transpose(table))
        return ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")


class EncoderModel(keras.Model):
    """What the models share: an encoder with the original's variable paths, and serialisation."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.encoder = AlbertEncoder(config, dtype=self.dtype_policy)

    def _encode(self, features, training):
        """Outputs of the encoder; where `prunes()`, those alone that need `[CLS]` alone."""
        if prunes():
            return self._encode_at(features["input_ids"][:, :0], features, training)[0]
        return dict(self.encoder(features, training=training))

    def _encode_at(self, positions, features, training):
        """What needs `[CLS]` alone, and `[batch, predictions, hidden]` at `positions`."""
        outputs = self.encoder(features, training=training, positions=positions)
        return {"pooled_output": outputs["pooled_output"]}, outputs["sequence_output"]

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        return cls(AlbertConfig(**config.pop("config")), **config)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForPreTraining(EncoderModel):
    """Masked language model and sentence-order prediction (paper section 3.1).

    Args:
        config: shape of the model.
        **kwargs: `dtype` and other arguments of `keras.Model`.
    """

    def __init__(self, config: AlbertConfig, name: str = "albert_for_pretraining", **kwargs):
        super().__init__(config, name=name, **kwargs)
        policy = self.dtype_policy
        self.masked_lm = MaskedLMHead(config, name="predictions", dtype=policy)
        self.sentence_order = LinearHead(
            2, config.initializer_range, name="seq_relationship", dtype=policy
        )
        # Built outside of this model's own scope, for the original's paths (`cls/...`).
        with keras.name_scope("cls"):
            self.masked_lm.build((None, None, config.hidden_size))
            self.sentence_order.build((None, config.hidden_size))
        self.built = True

    def call(self, features, training: bool = False):
        """Features of the encoder and `masked_lm_positions` `[batch, predictions]`.

        Returns:
            The encoder's outputs, `masked_lm_logits` `[batch, predictions, vocab]` and
            `sentence_order_logits` `[batch, 2]` (1 = swapped), float32. Without
            `masked_lm_positions` there are no `masked_lm_logits`.
        """
        positions = features.get("masked_lm_positions")
        if positions is None:
            outputs = self._encode(features, training)
        else:
            if prunes():
                outputs, hidden = self._encode_at(positions, features, training)
            else:
                outputs = self._encode(features, training)
                sequence = outputs["sequence_output"]
                hidden = ops.matmul(selector(positions, sequence), sequence)
            table = self.encoder.embeddings.word_embeddings
            outputs["masked_lm_logits"] = self.masked_lm(hidden, table)
        outputs["sentence_order_logits"] = self.sentence_order(outputs["pooled_output"])
        return outputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForSequenceClassification(EncoderModel):
    """A linear classifier, or regressor with one output, on the pooled output.

    Args:
        config: shape of the model.
        num_labels: number of logits.
        classifier_dropout: dropout of the pooled output in training.
        **kwargs: `dtype` and other arguments of `keras.Model`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        classifier_dropout: float = 0.1,
        name: str = "albert_for_sequence_classification",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.classifier_dropout = classifier_dropout
        self.classifier = LinearHead(
            num_labels, config.initializer_range, name="classifier", dtype=self.dtype_policy
        )
        self.classifier.build((None, config.hidden_size))
        self.built = True

    def call(self, features, training: bool = False):
        """Features of the encoder to its outputs and `logits` `[batch, num_labels]`, float32."""
        # Drawn before the encoder draws its own, and the last site of its pass: no overlap.
        seed = forward_seed(self.encoder.seed_generator) if training else None
        outputs = self._encode(features, training)
        pooled = dropout(outputs["pooled_output"], self.classifier_dropout, seed, site=SITES - 1)
        outputs["logits"] = self.classifier(pooled)
        return outputs

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "classifier_dropout": self.classifier_dropout,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForQuestionAnswering(EncoderModel):
    """Start and end of an answer in the text, each found by itself (the original's SQuAD 1.1 head).

    Args:
        config: shape of the model.
        **kwargs: `dtype` and other arguments of `keras.Model`.
    """

    def __init__(self, config: AlbertConfig, name: str = "albert_for_question_answering", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.span = SpanHead(2, config.initializer_range, name="squad", dtype=self.dtype_policy)
        with keras.name_scope("cls"):
            self.span.build((None, None, config.hidden_size))
        self.built = True

    def call(self, features, training: bool = False):
        """Features of the encoder to its outputs, `start_logits` and `end_logits`.

        Both are `[batch, seq]`, float32, of all positions, those of padding included.
        """
        outputs = dict(self.encoder(features, training=training))
        logits = self.span(outputs["sequence_output"])
        outputs["start_logits"], outputs["end_logits"] = logits[..., 0], logits[..., 1]
        return outputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForMultipleChoice(EncoderModel):
    """Chooses among texts by a score of each one's pooled output (the original's RACE head).

    Args:
        config: shape of the model.
        classifier_dropout: dropout of the pooled output in training.
        **kwargs: `dtype` and other arguments of `keras.Model`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        classifier_dropout: float = 0.1,
        name: str = "albert_for_multiple_choice",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.classifier_dropout = classifier_dropout
        self.classifier = LinearHead(
            1, config.initializer_range, name="classifier", dtype=self.dtype_policy
        )
        self.classifier.build((None, config.hidden_size))
        self.built = True

    def call(self, features, training: bool = False):
        """Scores the choices of each example.

        Args:
            features: those of the encoder, each `[batch, choices, seq]`.
            training: whether dropout acts.

        Returns:
            `logits` `[batch, choices]`, float32, and the encoder's outputs, whose first axis is
            `batch * choices`.
        """
        choices = ops.shape(features["input_ids"])[1]
        flat = {
            name: ops.reshape(values, (-1, ops.shape(values)[-1]))
            for name, values in features.items()
            if name in ("input_ids", "input_mask", "segment_ids")
        }
        seed = forward_seed(self.encoder.seed_generator) if training else None
        outputs = self._encode(flat, training)
        pooled = dropout(outputs["pooled_output"], self.classifier_dropout, seed, site=SITES - 1)
        outputs["logits"] = ops.reshape(self.classifier(pooled), (-1, choices))
        return outputs

    def get_config(self):
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}
