"""EncoderModel: the base class of all models that are an encoder with the heads of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import DEFAULT, attention_name
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.execution import Execution
from albert_tf.modeling.fitting import KerasTraining
from albert_tf.modeling.freezing import freeze_again, frozen_paths
from albert_tf.modeling.inputs import ENCODER_FEATURES, FeatureInputs


class EncoderModel(FeatureInputs, KerasTraining, keras.Model):
    """An encoder with the original's variable paths, serialization, and training with `fit`.

    Engines call a model as `model(features, training=..., heads_only=True, execution=...)`. A model
    whose `call` lacks one of the last two arguments is called without it. `call` gets the features
    of the encoder and those that the class names in `feature_names`, under the names of this
    project.

    Args:
        config: shape of the model.
        attention: how attention is computed, as in `AlbertEncoder`.
        **kwargs: `dtype` and other arguments of `keras.Model`.
    """

    def __init__(self, config: AlbertConfig, attention: str | Callable = DEFAULT, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.encoder = AlbertEncoder(config, attention=attention, dtype=self.dtype_policy)

    def encode(
        self, features, training: bool, heads_only: bool, execution: Execution, **on_request: bool
    ):
        """The encoder's outputs for a head that reads `pooled_output` only.

        Returns:
            All of them, or `pooled_output` alone with `heads_only`; then the last layer is computed
            at `[CLS]` only.

        Raises:
            InputError: if outputs are requested together with `heads_only`.
        """
        if not heads_only or any(on_request.values()):
            return self.encode_all(features, training, heads_only, execution, **on_request)
        nowhere = features["input_ids"][:, :0]
        encoded = self.encoder.encode_at(_of_encoder(features), nowhere, training, execution)
        return {"pooled_output": encoded["pooled_output"]}

    def encode_all(
        self, features, training: bool, heads_only: bool, execution: Execution, **on_request: bool
    ):
        """The encoder's outputs for a head that reads `sequence_output`.

        Args:
            features: those of the encoder.
            training: whether dropout is applied.
            heads_only: whether the model returns the outputs of its heads only.
            execution: how an engine wants the layers executed.
            **on_request: flags of `AlbertEncoder.call` that ask for more outputs.

        Raises:
            InputError: if outputs are requested together with `heads_only`.
        """
        requested = [name for name, wanted in on_request.items() if wanted]
        if heads_only and requested:
            raise InputError(f"`{requested[0]}`=True: cannot be combined with `heads_only`=True")
        features = _of_encoder(features)
        return self.encoder(features, training=training, execution=execution, **on_request)

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "attention": attention_name(self.encoder.attention),
            "frozen": frozen_paths(self),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cls(AlbertConfig(**config.pop("config")), **config)
        freeze_again(model, frozen)
        return model


def _of_encoder(features):
    return {name: features[name] for name in ENCODER_FEATURES if name in features}
