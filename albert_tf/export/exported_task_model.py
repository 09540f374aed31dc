"""Base class of exported fine-tuned models."""

from __future__ import annotations

import abc

import keras
import tensorflow as tf

from albert_tf.export.graph_tokenizers import graph_tokenizer
from albert_tf.tokenizers import Tokenizer

TEXTS = tf.TensorSpec([None], tf.string)


class ExportedTaskModel(tf.Module, abc.ABC):
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
