"""Base class of exported fine-tuned models."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import keras
import tensorflow as tf

from albert_tf.export.graph_tokenizers import graph_tokenizer
from albert_tf.tokenizers import Tokenizer

TEXTS = tf.TensorSpec([None], tf.string)

# Number of windows that a model reads at a time, which bounds memory for very long texts.
_BATCH = 32


class TaskExport(tf.Module, abc.ABC):
    """A fine-tuned model together with its tokenizer: takes strings and returns answers.

    Args:
        model: model of the task.
        tokenizer: tokenizer of the model.
        files: saved as assets: config, vocabulary, labels.
    """

    def __init__(self, model: keras.Model, tokenizer: Tokenizer, files: list[str]):
        super().__init__(name="albert")
        # Not tracked: a tracked Keras model would be saved with a second copy of every weight.
        object.__setattr__(self, "_model", model)
        # Keys of the weights as in training checkpoints, so that an export can be read like one.
        self.params = {weight.path: weight.value for weight in model.weights}
        self.dropout_state = model.encoder.seed_generator.state.value
        self.tokenizer = graph_tokenizer(tokenizer)
        self.files = [tf.saved_model.Asset(file) for file in files]
        self._symbols = self.tokenizer.symbols

    @abc.abstractmethod
    def signatures(self) -> dict:
        """Returns the serving signatures by name."""

    @abc.abstractmethod
    def _answers(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of the signature for at least one text of each kind."""

    def _answered(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the same also for a batch of 0, by way of an empty text."""
        count = tf.shape(texts[0])[0]
        outputs = self._answers(*(_with_empty_text(each, count == 0) for each in texts))
        return {name: values[:count] for name, values in outputs.items()}

    def _in_batches(
        self, features: dict[str, tf.Tensor], names: Sequence[str]
    ) -> dict[str, tf.Tensor]:
        """Returns outputs of the model for windows, computed in batches.

        Args:
            features: inputs of the model, `[windows, seq]`.
            names: of the outputs.
        """
        windows = tf.shape(features["input_ids"])[0]

        def more(first, *arrays):
            return first < windows

        def read(first, *arrays):
            after = first + _BATCH
            part = {name: values[first:after] for name, values in features.items()}
            outputs = self._model(part)
            pairs = zip(arrays, names, strict=True)
            number = first // _BATCH
            return after, *(array.write(number, outputs[name]) for array, name in pairs)

        arrays = [
            tf.TensorArray(
                tf.int32 if name.endswith("_index") else tf.float32,
                size=(windows + _BATCH - 1) // _BATCH,
                infer_shape=False,
            )
            for name in names
        ]
        _, *arrays = tf.while_loop(more, read, [0, *arrays], parallel_iterations=1)
        return {name: array.concat() for name, array in zip(names, arrays, strict=True)}


def _with_empty_text(texts: tf.Tensor, is_needed: tf.Tensor) -> tf.Tensor:
    """Adds a row of empty texts, at least one, to strings `[batch]` or `[batch, options]`."""
    shape = tf.shape(texts)
    row = tf.tensor_scatter_nd_update(tf.maximum(shape, 1), [[0]], shape[:1] + 1)
    wanted = tf.where(is_needed, row, shape)
    missing = tf.reduce_prod(wanted) - tf.size(texts)
    return tf.reshape(tf.concat([tf.reshape(texts, [-1]), tf.fill([missing], "")], 0), wanted)
