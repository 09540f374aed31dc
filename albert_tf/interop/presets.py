"""Models by the name of published weights."""

from __future__ import annotations

import logging
from typing import TypeVar

import keras

from albert_tf.errors import InputError
from albert_tf.hub.names import local_weights
from albert_tf.interop.formats import load_weights as load
from albert_tf.interop.formats import open_weights
from albert_tf.modeling.encoder import AlbertEncoder

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=keras.Model)


def from_preset(
    name: str,
    model_class: type[Model] = AlbertEncoder,  # type: ignore[assignment]
    *,
    load_weights: bool = True,
    **arguments,
) -> Model:
    """Create a model with the config and the weights of published ones.

    Variables that the weights lack, such as those of a new head, keep their initial values and are
    logged.

    Args:
        name: `ORGANIZATION/NAME[@REVISION]` of the Hugging Face Hub, a name such as
            "albert_base_v2", a TF-Hub or Kaggle handle, the address of an archive, or a local path.
        model_class: any model of this package.
        load_weights: whether to load the weights; otherwise, the model has random ones.
        **arguments: of `model_class`, besides the config: `num_labels`, `dtype`, `attention`, ...

    Raises:
        InputError: If the weights cannot be fetched or read, or come without a config.

    Example:
        >>> encoder = albert_tf.from_preset("albert/albert-base-v2")
        >>> tokenizer = albert_tf.Tokenizer.load("albert/albert-base-v2")
        >>> tuple(encoder(tokenizer("The model reads text."))["pooled_output"].shape)
        (1, 768)
        >>> classifier = albert_tf.from_preset(
        ...     "albert/albert-base-v2", albert_tf.AlbertForSequenceClassification, num_labels=3
        ... )
        >>> tuple(classifier(tokenizer("The model reads text."))["logits"].shape)
        (1, 3)
    """
    path = local_weights(name, argument="name")
    config = open_weights(path).config
    if config is None:
        raise InputError(f"`name`={name}: there is no albert_config.json next to the weights")
    model = model_class(config, **arguments)
    if load_weights:
        matched = load(model, path)
        if matched.missing:
            logger.info("%s: left at initial values: %s", name, ", ".join(matched.missing))
    return model
