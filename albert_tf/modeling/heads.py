"""The models: an encoder with the heads of a task."""

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels
from albert_tf.modeling.layers import LinearHead, activation, dense, layer_norm, select
from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    MultipleChoiceObjective,
    PretrainingObjective,
    RegressionObjective,
    TokenClassificationObjective,
)
from albert_tf.modeling.model import ROW_FEATURES


class MaskedLMHead(keras.layers.Layer):
    """Vocabulary logits at the masked positions, decoded with the tied embedding table.

    Dense H -> E, GELU, LayerNorm, then the product with the embedding table, as in the original.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config.embedding_size, config.initializer_range, "dense", self.dtype_policy
        )
        self.norm = layer_norm(config, "LayerNorm", self.dtype_policy)

    def build(self, input_shape):
        with keras.name_scope("transform"):
            self.dense.build(input_shape)
            self.norm.build((*input_shape[:-1], self.config.embedding_size))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    def call(self, hidden, word_embeddings, kernels: Kernels = PLAIN_KERNELS):
        """Predict tokens, float32 logits `[batch, predictions, vocab]`.

        Args:
            hidden: `[batch, predictions, hidden]`, the encoder's output at the masked positions.
            word_embeddings: `[vocab, embedding_size]`, the encoder's embedding table.
            kernels: plain or fused kernels.
        """
        product = ops.matmul(hidden, self.dense.kernel)
        hidden = self.norm(activation(self.config.hidden_act, product, self.dense.bias, kernels))
        table = ops.cast(word_embeddings, self.compute_dtype)
        return kernels.vocabulary_logits(hidden, table, self.output_bias)


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

    feature_names = ("masked_lm_positions", *ROW_FEATURES)
    reads = "masked_lm_positions"
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

    def heads(self, encoded, features, seed, kernels):
        """Predict the masked tokens and the order of the segments.

        Returns:
            Dictionary of `masked_lm_logits` `[batch, predictions, vocab]`, which is absent without
            `masked_lm_positions`, and `sentence_order_logits` `[batch, 2]` (1 = swapped), float32;
            of rows `[batch, examples, 2]`.
        """
        outputs = {}
        positions = features.get("masked_lm_positions")
        if positions is not None:
            hidden = encoded["sequence_output"]
            if "encoder_outputs" in encoded:  # of all positions
                hidden = select(hidden, positions)
            table = self.encoder.embeddings.word_embeddings
            outputs["masked_lm_logits"] = self.masked_lm(hidden, table, kernels=kernels)
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

    reads = "pooled_output"
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
        super().__init__(config, classifier_dropout=classifier_dropout, name=name, **kwargs)
        self.num_labels = num_labels
        self.classifier = self.linear_head(num_labels, "classifier")

    def heads(self, encoded, features, seed, kernels):
        """Compute float32 `logits` `[batch, num_labels]`."""
        return {"logits": self.classifier(self.drop(encoded["pooled_output"], seed))}

    def target_of(self, labels) -> str:
        """Return the label that an array is: by its dtype, its shape and `num_labels`."""
        if len(labels.shape) > 1 and labels.shape[-1] != 1:
            return "label_sets"
        is_float = "float" in keras.backend.standardize_dtype(labels.dtype)
        return "label_values" if is_float and self.num_labels == 1 else "label_ids"

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForTokenClassification(EncoderModel):
    """A linear classifier of every token on the sequence output.

    The original has no such head; this one is that of Hugging Face transformers.

    Args:
        config: shape of the model.
        num_labels: number of logits of a token.
        classifier_dropout: dropout rate of the sequence output in training.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForTokenClassification(config, num_labels=5)
        >>> tuple(model({"input_ids": np.array([[2, 14, 9, 3]])})["logits"].shape)
        (1, 4, 5)
    """

    objectives = (TokenClassificationObjective(),)

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        classifier_dropout: float = 0.1,
        name: str = "albert_for_token_classification",
        **kwargs,
    ):
        super().__init__(config, classifier_dropout=classifier_dropout, name=name, **kwargs)
        self.num_labels = num_labels
        self.token_classifier = self.linear_head(num_labels, "token_classifier")

    def heads(self, encoded, features, seed, kernels):
        """Compute float32 `logits` `[batch, seq, num_labels]`, padding included."""
        return {"logits": self.token_classifier(self.drop(encoded["sequence_output"], seed))}

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}


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
    reads = "pooled_output"
    objectives = (MultipleChoiceObjective(),)
    targets = {"label_ids": "logits"}

    def __init__(
        self,
        config: AlbertConfig,
        classifier_dropout: float = 0.1,
        name: str = "albert_for_multiple_choice",
        **kwargs,
    ):
        super().__init__(config, classifier_dropout=classifier_dropout, name=name, **kwargs)
        self.classifier = self.linear_head(1, "classifier")

    def heads(self, encoded, features, seed, kernels):
        """Compute float32 `logits` `[batch, choices]`."""
        pooled = self.drop(encoded["pooled_output"], seed)
        choices = ops.shape(features["input_ids"])[1]
        return {"logits": ops.reshape(self.classifier(pooled), (-1, choices))}
