"""The head that labels every token (named-entity recognition, tagging)."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.execution import PLAIN, Execution
from albert_tf.modeling.layers import SITES, LinearHead, dropout, forward_seed
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
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.classifier_dropout = classifier_dropout
        self.token_classifier = LinearHead(
            num_labels, config.initializer_range, name="token_classifier", dtype=self.dtype_policy
        )
        self.token_classifier.build((None, None, config.hidden_size))
        self.built = True

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Classifies tokens.

        Args:
            features: those of the encoder.
            training: whether dropout is applied.
            heads_only: whether to return the logits only.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of `logits` `[batch, seq, num_labels]`, float32, at all positions including
            padding; without `heads_only`, also the encoder's outputs.
        """
        # Drawn before the encoder draws its own seed, and the last site of its pass: no overlap.
        seed = forward_seed(self.encoder.seed_generator) if training else None
        encoded = self.encode_all(features, training, heads_only, execution, **on_request)
        sequence = encoded["sequence_output"]
        sequence = dropout(sequence, self.classifier_dropout, seed, site=SITES - 1)
        outputs = {} if heads_only else dict(encoded)
        outputs["logits"] = self.token_classifier(sequence)
        return outputs

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "classifier_dropout": self.classifier_dropout,
        }
