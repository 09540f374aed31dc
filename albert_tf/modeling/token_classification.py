"""The head that labels every token (named-entity recognition, tagging)."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.layers import LinearHead
from albert_tf.modeling.losses import TokenClassificationObjective


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
        self.token_classifier = LinearHead(
            num_labels, config.initializer_range, name="token_classifier", dtype=self.dtype_policy
        )
        self.token_classifier.build((None, None, config.hidden_size))

    def heads(self, encoded, features, seed, kernels):
        """Compute float32 `logits` `[batch, seq, num_labels]`, padding included."""
        sequence = self.drop(encoded["sequence_output"], seed)
        return {"logits": self.token_classifier(sequence)}

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}
