"""The models: an encoder with the heads of a task."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.execution import PLAIN, Execution
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels
from albert_tf.modeling.layers import (
    SITES,
    LinearHead,
    SpanHead,
    activation,
    dense,
    dropout,
    forward_seed,
    layer_norm,
    select,
)
from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    MultipleChoiceObjective,
    PretrainingObjective,
    RegressionObjective,
    SpanObjective,
)


class MaskedLMHead(keras.layers.Layer):
    """Vocabulary logits at the masked positions, decoded with the tied embedding table.

    Dense H -> E, GELU, LayerNorm, then the product with the embedding table, as in the original.

    Args:
        config: shape of the model.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config.embedding_size, config.initializer_range, "dense", self.dtype_policy
        )
        self.norm = layer_norm("LayerNorm", self.dtype_policy)

    def build(self, input_shape):
        with keras.name_scope("transform"):
            self.dense.build(input_shape)
            self.norm.build((*input_shape[:-1], self.config.embedding_size))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    def call(self, hidden, word_embeddings, kernels: Kernels = PLAIN_KERNELS):
        """Predicts tokens.

        Args:
            hidden: `[batch, predictions, hidden]`, the encoder's output at the masked positions.
            word_embeddings: `[vocab, embedding_size]`, the encoder's embedding table.
            kernels: plain or fused kernels.

        Returns:
            float32 logits `[batch, predictions, vocab]`.
        """
        product = keras.ops.matmul(hidden, self.dense.kernel)
        hidden = self.norm(activation(self.config.hidden_act, product, self.dense.bias, kernels))
        table = keras.ops.cast(word_embeddings, self.compute_dtype)
        logits = keras.ops.matmul(hidden, keras.ops.transpose(table))
        bias = keras.ops.cast(self.output_bias, "float32")
        return keras.ops.cast(logits, "float32") + bias


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForPreTraining(EncoderModel):
    """Masked language model and sentence-order prediction (paper section 3.1).

    Args:
        config: shape of the model.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:

        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForPreTraining(config)
        >>> ids, masked = np.array([[2, 14, 4, 9, 3]]), np.array([[2]])
        >>> outputs = model({"input_ids": ids, "masked_lm_positions": masked})
        >>> tuple(outputs["masked_lm_logits"].shape), tuple(outputs["sentence_order_logits"].shape)
        ((1, 1, 100), (1, 2))
    """

    feature_names = ("masked_lm_positions",)
    objectives = (PretrainingObjective("sop"), PretrainingObjective("none"))
    targets = {
        "masked_lm_ids": "masked_lm_logits",
        "next_sentence_labels": "sentence_order_logits",
    }

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

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Predicts the masked tokens and the order of the segments.

        Args:
            features: those of the encoder, and `masked_lm_positions` `[batch, predictions]`.
            training: whether dropout is applied.
            heads_only: whether to return the logits only, and to compute the last layer only at
                the positions that they need.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of `masked_lm_logits` `[batch, predictions, vocab]`, which is absent without
            `masked_lm_positions`, and `sentence_order_logits` `[batch, 2]` (1 = swapped), both
            float32; without `heads_only`, also the encoder's outputs.
        """
        positions = features.get("masked_lm_positions")
        if positions is None:
            encoded = self.encode(features, training, heads_only, execution, **on_request)
        elif heads_only and not on_request:
            encoded = self.encoder.encode_at(features, positions, training, execution)
            hidden = encoded["sequence_output"]
        else:
            encoded = self.encode_all(features, training, heads_only, execution, **on_request)
            hidden = select(encoded["sequence_output"], positions)
        outputs = {} if heads_only else dict(encoded)
        if positions is not None:
            table = self.encoder.embeddings.word_embeddings
            outputs["masked_lm_logits"] = self.masked_lm(hidden, table, kernels=execution.kernels)
        outputs["sentence_order_logits"] = self.sentence_order(encoded["pooled_output"])
        return outputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForSequenceClassification(EncoderModel):
    """A linear classifier, or regressor with one output, on the pooled output.

    Args:
        config: shape of the model.
        num_labels: number of logits.
        classifier_dropout: dropout rate of the pooled output in training.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:

        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForSequenceClassification(config, num_labels=3)
        >>> tuple(model({"input_ids": np.array([[2, 14, 9, 3]])})["logits"].shape)
        (1, 3)
    """

    objectives = (ClassificationObjective(), RegressionObjective(), MultiLabelObjective())
    targets = {"label_ids": "logits", "label_values": "logits", "label_sets": "logits"}

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

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Classifies sequences.

        Args:
            features: those of the encoder.
            training: whether dropout is applied.
            heads_only: whether to return the logits only, and to compute the last layer only at
                `[CLS]`.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of `logits` `[batch, num_labels]`, float32; without `heads_only`, also the
            encoder's outputs.
        """
        # Drawn before the encoder draws its own seed, and the last site of its pass: no overlap.
        seed = forward_seed(self.encoder.seed_generator) if training else None
        encoded = self.encode(features, training, heads_only, execution, **on_request)
        pooled = dropout(encoded["pooled_output"], self.classifier_dropout, seed, site=SITES - 1)
        outputs = {} if heads_only else dict(encoded)
        outputs["logits"] = self.classifier(pooled)
        return outputs

    def target_of(self, labels) -> str:
        """The label that an array is: by its dtype, its shape and `num_labels`."""
        if len(labels.shape) > 1 and labels.shape[-1] != 1:
            return "label_sets"
        is_float = "float" in keras.backend.standardize_dtype(labels.dtype)
        return "label_values" if is_float and self.num_labels == 1 else "label_ids"

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "classifier_dropout": self.classifier_dropout,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForQuestionAnswering(EncoderModel):
    """Start and end of an answer, predicted independently (the original's SQuAD 1.1 head).

    Args:
        config: shape of the model.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:

        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForQuestionAnswering(config)
        >>> question_and_context = np.array([[2, 14, 9, 3, 21, 22, 23, 3]])
        >>> segments = np.array([[0, 0, 0, 0, 1, 1, 1, 1]])
        >>> outputs = model({"input_ids": question_and_context, "segment_ids": segments})
        >>> tuple(outputs["start_logits"].shape), tuple(outputs["end_logits"].shape)
        ((1, 8), (1, 8))
    """

    objectives = (SpanObjective(),)
    targets = {"start_positions": "start_logits", "end_positions": "end_logits"}

    def __init__(self, config: AlbertConfig, name: str = "albert_for_question_answering", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.span = SpanHead(2, config.initializer_range, name="squad", dtype=self.dtype_policy)
        with keras.name_scope("cls"):
            self.span.build((None, None, config.hidden_size))
        self.built = True

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Scores every position as the start and as the end of the answer.

        Args:
            features: those of the encoder.
            training: whether dropout is applied.
            heads_only: whether to return the logits only.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of `start_logits` and `end_logits` `[batch, seq]`, float32, at all positions
            including padding; without `heads_only`, also the encoder's outputs.
        """
        encoded = self.encode_all(features, training, heads_only, execution, **on_request)
        logits = self.span(encoded["sequence_output"])
        outputs = {} if heads_only else dict(encoded)
        outputs["start_logits"], outputs["end_logits"] = logits[..., 0], logits[..., 1]
        return outputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForMultipleChoice(EncoderModel):
    """Scores each choice by its pooled output (the original's RACE head).

    Args:
        config: shape of the model.
        classifier_dropout: dropout rate of the pooled output in training.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:

        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForMultipleChoice(config)
        >>> three_choices = np.array([[[2, 14, 21, 3], [2, 14, 22, 3], [2, 14, 23, 3]]])
        >>> tuple(model({"input_ids": three_choices})["logits"].shape)
        (1, 3)
    """

    encoder_rank = 3
    objectives = (MultipleChoiceObjective(),)
    targets = {"label_ids": "logits"}

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

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Scores the choices of each example.

        Args:
            features: those of the encoder, each `[batch, choices, seq]`.
            training: whether dropout is applied.
            heads_only: whether to return the logits only, and to compute the last layer only at
                `[CLS]`.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of `logits` `[batch, choices]`, float32; without `heads_only`, also the
            encoder's outputs, whose first axis is `batch * choices`.
        """
        choices = ops.shape(features["input_ids"])[1]
        flat = {
            name: ops.reshape(values, (-1, ops.shape(values)[-1]))
            for name, values in features.items()
            if name in ("input_ids", "input_mask", "segment_ids")
        }
        seed = forward_seed(self.encoder.seed_generator) if training else None
        encoded = self.encode(flat, training, heads_only, execution, **on_request)
        pooled = dropout(encoded["pooled_output"], self.classifier_dropout, seed, site=SITES - 1)
        outputs = {} if heads_only else dict(encoded)
        outputs["logits"] = ops.reshape(self.classifier(pooled), (-1, choices))
        return outputs

    def get_config(self):
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}
