"""What all models on raw strings share: a Keras model, its tokenizer, and how they are created."""

import abc
import functools
import os
import random
from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
import numpy as np

from albert_tf.engines.base import Engine, create_engine
from albert_tf.engines.device_options import DTYPE_POLICIES, DeviceOptions
from albert_tf.engines.steps import PredictionStep
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.input.examples import Features, MemoryStream
from albert_tf.interop.loading import Preset, load_weights, open_preset
from albert_tf.text_models.inputs import check_whole_number
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.loop import predict, refuse_nan
from albert_tf.weights import MatchedWeights

# Sizes of batches if there are too few examples for a whole one: few, since each is compiled.
_SMALL_BATCHES = (1, 8)


class TextModel(abc.ABC):
    """A Keras model with its tokenizer: strings in, results out.

    A subclass must define `_from_preset`, which creates it from opened weights, and offers methods
    that take strings. These encode strings as `Features` and call `_predict`. Models of a
    fine-tuning task are subclasses of `albert_tf.text_models.task_model.TaskModel`.

    The model of this package, with its weights, may be created on any device. Copies and pickles
    contain weights and vocabulary; those of a model without a head name the weights instead.
    """

    def __init__(self, model: keras.Model | None, tokenizer: Tokenizer):
        self._model = model
        self.tokenizer = tokenizer

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_engine", "_prediction_steps")  # which are computed again
        state = {name: value for name, value in vars(self).items() if name not in cached}
        model = self._model
        if model is not None:  # without its optimizer: every `fit` has a new one
            state["_model"] = type(model), model.get_config(), model.get_weights()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if state["_model"] is not None:
            model_class, config, weights = state["_model"]
            self._model = model_class.from_config(config)
            self._model.set_weights(weights)

    @property
    def model(self) -> keras.Model:
        """The Keras model. Its weights may be changed, by Keras or by hand, at any time."""
        return self._model

    @classmethod
    def from_preset(
        cls,
        name: str | os.PathLike[str],
        *args: Any,
        vocabulary: str | os.PathLike[str] | None = None,
        do_lower_case: bool | None = None,
        dtype: str = "float32",
        **arguments: Any,
    ) -> Self:
        """Create the model from weights by name.

        Args:
            name: as for `albert_tf.from_preset`: a training folder, of which the weights in
                `best/` are used if there are any, a converted folder, a name of the Hugging Face
                Hub such as "albert/albert-base-v2", ...
            *args: of the class, as `**arguments`.
            vocabulary: path of the vocabulary; by default the one next to the weights.
            do_lower_case: whether to lower-case text; by default as recorded next to the weights.
            dtype: precision of matrix products and activations, "float32" or "bfloat16".
            **arguments: of the class.

        Raises:
            InputError: If the weights cannot be fetched or read, come without config or vocabulary,
                or an argument is invalid or contradicts the weights.
        """
        if dtype not in DTYPE_POLICIES:
            raise InputError(f"`dtype`={dtype}: must be one of {', '.join(DTYPE_POLICIES)}")
        preset = open_preset(name, vocabulary, do_lower_case)
        return cls._from_preset(preset, DTYPE_POLICIES[dtype], *args, **arguments)

    @classmethod
    @abc.abstractmethod
    def _from_preset(cls, preset: Preset, dtype: str, *args: Any, **arguments: Any) -> Self:
        """Create the model from opened weights, a Keras dtype policy and the other arguments."""

    def _predict(
        self,
        features: Features,
        outputs: Sequence[str],
        batch_size: int,
        max_seq_length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Return what the model computes for all examples, in their order, without dropout.

        Batches are those of `--do_predict`: sorted by length, and padded to one of few lengths, for
        each of which JAX compiles the model once. The longest is `max_seq_length`, by default
        `max_position_embeddings`. There must be an example.

        Returns:
            The outputs by name, `[examples, ...]`. Where their other axes differ from batch to
            batch, they are padded with `albert_tf.training.loop.OUTPUT_PADDING`.
        """
        check_whole_number("batch_size", batch_size, 1)
        length = max_seq_length or self.model.config.max_position_embeddings
        size = min([batch_size, *(size for size in _SMALL_BATCHES if len(features) <= size)])
        pad = self._engine.devices.is_tpu
        stream = MemoryStream(features, length, size, pad_to_max_length=pad)
        predicted = predict(self._engine, self._prediction_step(tuple(outputs)), stream)
        refuse_nan(predicted, "the model")
        return predicted

    @functools.cached_property
    def _engine(self) -> Engine:
        """The engine of Keras' backend, which computes predictions as the commands do."""
        with arguments_renamed(engine="KERAS_BACKEND"):
            return create_engine(keras.backend.backend(), DeviceOptions(strategy="one_device"))

    def _prediction_step(self, outputs: tuple[str, ...]) -> PredictionStep:
        step, model = self._prediction_steps.get(outputs, (None, None))
        if step is None or model is not self.model:
            predicting, engine = self._predicting_model(), self._engine
            step = engine.prediction_step(predicting, outputs, engine.devices)
            self._prediction_steps[outputs] = (step, self.model)
        return step

    def _predicting_model(self) -> keras.Model:
        """Return what computes the outputs of `_predict`: the model, or a part of it."""
        return self.model

    @functools.cached_property
    def _prediction_steps(self) -> dict[tuple[str, ...], tuple[PredictionStep, keras.Model]]:
        return {}


def create_with_weights(
    build: Callable[[], keras.Model], preset: Preset, seed: int
) -> tuple[keras.Model, MatchedWeights]:
    """Create a model with the weights of a preset, as the commands do.

    The same seed of the initial weights as in a command gives the same new head. Also return which
    variables were loaded.

    Raises:
        InputError: If the weights belong to another model.
    """
    before = random.getstate()
    random.seed(seed)  # from which Keras draws the seeds of initializers
    try:
        model = build()
    finally:
        random.setstate(before)
    with arguments_renamed(path="name"):
        matched = load_weights(model, preset.path)
    return model, matched
