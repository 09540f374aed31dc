"""AlbertModel: what the encoder and all models with heads have in common as Keras models."""

import dataclasses
import fnmatch
from collections.abc import Callable, Sequence
from typing import ClassVar

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import DEFAULT, attention_name, find_attention
from albert_tf.modeling.inputs import check_values, read_features


class AlbertModel(keras.Model):
    """A Keras model that is called with a dictionary of features and created from its config.

    Its `attention` is a name or function as in `albert_tf.modeling.attention`.

    Attributes:
        feature_names: the features that `call` reads, besides those of the encoder.
        encoder_rank: number of axes of the encoder's features.
    """

    feature_names: ClassVar[tuple[str, ...]] = ()
    encoder_rank: ClassVar[int] = 2

    def __init__(self, config: AlbertConfig, attention: str | Callable = DEFAULT, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.attention = find_attention(attention)

    def __call__(self, features, *args, **kwargs):
        features = self._read(features)
        check_values(features, self.config)
        return super().__call__(features, *args, **kwargs)

    def stateless_call(self, trainable_variables, non_trainable_variables, features, **kwargs):
        # Keras on JAX trains and predicts with this method, which does not use `__call__`.
        return super().stateless_call(
            trainable_variables, non_trainable_variables, self._read(features), **kwargs
        )

    def _read(self, features):
        longest = self.config.max_position_embeddings
        return read_features(features, self.feature_names, self.encoder_rank, longest)

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "attention": attention_name(self.attention),
            # Keras saves which variables an optimizer has, but not which ones are trainable.
            "frozen": [weight.path for weight in self.weights if not weight.trainable],
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cls(AlbertConfig(**config.pop("config")), **config)
        _freeze_paths(model, frozen)
        return model


def freeze(model: keras.Model, patterns: Sequence[str]) -> list[str]:
    """Make variables of a model untrainable: no updates, no weight decay, no optimizer memory.

    Call it before the optimizer is built or the model is compiled. To train a variable again, set
    its `trainable` attribute.

    Args:
        model: any model; its other variables keep what `trainable` they have.
        patterns: of variable paths, with the wildcards `*` (also across `/`), `?` and `[...]`.

    Returns:
        The paths of the variables that match.

    Raises:
        InputError: If a pattern matches no variable, or no variable is left to train.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForSequenceClassification(config, num_labels=2)
        >>> len(albert_tf.freeze(model, ["bert/*"])), len(model.trainable_weights)
        (25, 2)
    """
    paths = [weight.path for weight in model.weights]
    for pattern in patterns:
        if not fnmatch.filter(paths, pattern):
            raise InputError(
                f"`patterns`={pattern}: matches no variable of the model; its variables are "
                f"{', '.join(paths)}"
            )
    frozen = {path for pattern in patterns for path in fnmatch.filter(paths, pattern)}
    if all(weight.path in frozen for weight in model.trainable_weights):
        raise InputError(f"`patterns`={','.join(patterns)}: leaves no variable to train")
    _freeze_paths(model, frozen)
    return [path for path in paths if path in frozen]


def _freeze_paths(model: keras.Model, paths) -> None:
    for weight in model.weights:
        if weight.path in paths:
            weight.trainable = False
