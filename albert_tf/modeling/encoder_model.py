"""EncoderModel: the base class of all models that are an encoder with the heads of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import DEFAULT
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.execution import PLAIN, Execution
from albert_tf.modeling.fitting import KerasTraining
from albert_tf.modeling.inputs import ENCODER_FEATURES
from albert_tf.modeling.kernels import Kernels
from albert_tf.modeling.layers import SITES, dropout, forward_seed
from albert_tf.modeling.model import AlbertModel


class EncoderModel(KerasTraining, AlbertModel):
    """An encoder and the heads of a task, which a subclass creates and calls in `heads`.

    Engines call a model as `model(features, training=..., heads_only=True, execution=...)`.

    Args:
        config: shape of the model.
        attention: how attention is computed, as in `AlbertEncoder`.
        classifier_dropout: dropout rate of the heads in training; None for heads without dropout.
        **kwargs: `dtype` and other arguments of `keras.Model`.

    Attributes:
        reads: what the heads read: "sequence_output", "pooled_output", or the name of a feature
            with the positions at which they read the sequence output. With `heads_only`, the last
            layer computes nothing else.
    """

    reads: ClassVar[str] = "sequence_output"

    def __init__(
        self,
        config: AlbertConfig,
        attention: str | Callable = DEFAULT,
        classifier_dropout: float | None = None,
        **kwargs,
    ):
        super().__init__(config, attention, **kwargs)
        self.classifier_dropout = classifier_dropout
        self.encoder = AlbertEncoder(config, attention=attention, dtype=self.dtype_policy)
        self.built = True  # as subclasses build their heads

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Compute the outputs of the encoder and of the heads.

        Args:
            features: those of the encoder and those in `feature_names`.
            training: whether dropout is applied.
            heads_only: whether to return the outputs of the heads only, and to compute the last
                layer only where they read it.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of the outputs of `heads`; without `heads_only`, also those of the encoder.

        Raises:
            InputError: If outputs are requested together with `heads_only`.
        """
        requested = [name for name, wanted in on_request.items() if wanted]
        if heads_only and requested:
            raise InputError(f"`{requested[0]}`=True: cannot be combined with `heads_only`=True")
        # Drawn before the encoder draws its own.
        has_dropout = training and self.classifier_dropout is not None
        seed = forward_seed(self.encoder.seed_generator) if has_dropout else None
        inputs = self.encoder_features(features)
        if heads_only and self.reads != "sequence_output":
            nowhere = inputs["input_ids"][:, :0]
            positions = features.get(self.reads, nowhere)
            encoded = self.encoder.encode_at(inputs, positions, training, execution)
        else:
            encoded = self.encoder(inputs, training=training, execution=execution, **on_request)
        outputs = self.heads(encoded, features, seed, execution.kernels)
        return outputs if heads_only else {**encoded, **outputs}

    def heads(self, encoded, features, seed, kernels: Kernels) -> dict[str, Any]:
        """Compute the outputs of the heads.

        Args:
            encoded: outputs of the encoder. Where the last layer is computed at the positions in
                the feature `reads` only, those of `AlbertEncoder.encode_at`, else all.
            features: those of the encoder and those in `feature_names`.
            seed: `[2]` seed of `classifier_dropout`, None in inference.
            kernels: plain or fused kernels.
        """
        raise NotImplementedError

    def drop(self, inputs, seed):
        """Apply the dropout of the heads, in the last site of a forward pass: none overlaps."""
        return dropout(inputs, self.classifier_dropout or 0.0, seed, site=SITES - 1)

    def encoder_features(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return the features of the encoder, `[sequences, seq]`."""
        return {name: features[name] for name in ENCODER_FEATURES if name in features}

    def get_config(self):
        rate = self.classifier_dropout
        own = {} if rate is None else {"classifier_dropout": rate}
        return {**super().get_config(), **own}
