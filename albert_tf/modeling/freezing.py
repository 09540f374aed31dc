"""Freezing: variables that training leaves as they are."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import keras

from albert_tf.errors import InputError


def freeze(model: keras.Model, patterns: Sequence[str]) -> list[str]:
    """Makes variables of a model untrainable: no updates, no weight decay, no optimizer memory.

    Call it before the optimizer is built or the model is compiled. To train a variable again, set
    its `trainable` attribute.

    Args:
        model: any model; its other variables keep what `trainable` they have.
        patterns: of variable paths, with the wildcards `*` (also across `/`), `?` and `[...]`.

    Returns:
        The paths of the variables that match.

    Raises:
        InputError: if a pattern matches no variable, or no variable is left to train.

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
    for weight in model.weights:
        if weight.path in frozen:
            weight.trainable = False
    return [path for path in paths if path in frozen]


def frozen_paths(model: keras.Model) -> list[str]:
    """The paths of the weights that are not trainable, for `get_config`."""
    return [weight.path for weight in model.weights if not weight.trainable]


def freeze_again(model: keras.Model, paths: Sequence[str]) -> None:
    """Freezes the weights of a model that is created from its config.

    Keras saves which variables an optimizer has, but not which ones are trainable.
    """
    for weight in model.weights:
        if weight.path in paths:
            weight.trainable = False
