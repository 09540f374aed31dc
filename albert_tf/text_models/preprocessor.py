"""A Keras layer that turns strings into the inputs of a model, for `tf.data` and Keras models."""

import functools
import os
import sys
from typing import Any, NamedTuple

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import converted, copy_file, read_bytes, write_for
from albert_tf.text_models.inputs import check_whole_number
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import Normalization
from albert_tf.tokenizers.packing import MIN_LENGTH

_INPUTS = ("input_ids", "input_mask", "segment_ids")


@keras.saving.register_keras_serializable(package="albert_tf")
class Preprocessor(keras.layers.Layer):
    """Turns strings into the inputs of a model; a step of a `tf.data` pipeline, or a Keras layer.

        preprocessor = albert_tf.Preprocessor(tokenizer, max_length=128)

        # As a step of a pipeline:
        dataset = tf.data.Dataset.from_tensor_slices((texts, labels))
        dataset = dataset.batch(32).map(preprocessor)

        # As the first layer of a model that takes strings (Keras on TensorFlow):
        strings = keras.Input((), dtype="string")
        model = keras.Model(strings, classifier(preprocessor(strings))["logits"])

    Texts are packed and truncated as by the tokenizer itself, and always padded to `max_length`, so
    that every batch has the same shape.

    Tensors of TensorFlow are encoded by the in-graph tokenizers of exports, with the same ids, if
    TensorFlow Text is installed (`pip install 'albert-tf[export]'`). Otherwise, TensorFlow calls
    the Python tokenizer; this works in a pipeline and in a model that is trained or used, but not
    in one that is exported as a SavedModel. Python strings and NumPy arrays are encoded by the
    Python tokenizer, without TensorFlow.

    Args:
        tokenizer: of the model that the inputs are for, or what `Tokenizer.load` takes.
        max_length: length of every sequence in tokens, special symbols included.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        InputError: If the vocabulary cannot be loaded, or `max_length` is too small.

    Example:
        >>> preprocessor = albert_tf.Preprocessor("albert/albert-base-v2", max_length=16)
        >>> preprocessor(["A text.", "Another one."])["input_ids"].shape
        (2, 16)
    """

    def __init__(
        self,
        tokenizer: "Tokenizer | _Saved | str | os.PathLike[str]",
        max_length: int = 128,
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)
        check_whole_number("max_length", max_length, MIN_LENGTH)
        if isinstance(tokenizer, str | os.PathLike):
            tokenizer = Tokenizer.load(tokenizer)
        self._tokenizer = tokenizer
        self.max_length = max_length
        self._graph_tokenizer: Any = None
        self.supports_jit = False
        self.built = True

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        if isinstance(self._tokenizer, _Saved):
            self._tokenizer = self._tokenizer.load()
        return self._tokenizer

    def __call__(self, texts, labels=None, sample_weight=None, **kwargs):
        # Keras would turn strings into tensors of its backend, which JAX does not have, and one
        # line of an error into several. `kwargs` are what models of Keras pass on, like `training`.
        if any(isinstance(column, keras.KerasTensor) for column in _columns(texts)):
            return super().__call__(texts, labels, sample_weight, **kwargs)
        return self.call(texts, labels, sample_weight)

    def call(self, texts, labels=None, sample_weight=None):
        """Encode texts, or pairs of texts.

        Args:
            texts: a text, a batch of texts `[batch]`, or a tuple of two of these for pairs. Texts
                are strings, NumPy arrays or tensors of TensorFlow.
            labels, sample_weight: returned as they are, so that a pipeline of texts and labels maps
                this layer.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, int32 `[batch, max_length]`, or
            `[max_length]` for a text without a batch; with `labels`, a tuple of these and the
            labels, as `fit` expects.

        Raises:
            InputError: If a text is not a string, or texts and pairs differ in number.
        """
        columns = _columns(texts)
        in_tensorflow = any(map(_is_tensorflow, columns))
        features = (self._in_tensorflow if in_tensorflow else self._in_python)(*columns)
        return keras.utils.pack_x_y_sample_weight(features, labels, sample_weight)

    def compute_output_spec(self, texts, labels=None, sample_weight=None):
        if keras.backend.backend() != "tensorflow":
            raise InputError(
                f"`texts`: with KERAS_BACKEND={keras.backend.backend()}, models cannot contain "
                "strings; call this layer on strings, and the model on what it returns"
            )
        shape = (*_columns(texts)[0].shape, self.max_length)
        return {name: keras.KerasTensor(shape, "int32") for name in _INPUTS}

    def _in_python(self, texts, pairs=None) -> dict[str, np.ndarray]:
        texts, pairs = _as_strings(texts), _as_strings(pairs)
        features = self.tokenizer(texts, pairs, self.max_length, padding="max_length")
        if isinstance(texts, str):
            return {name: values[0] for name, values in features.items()}
        return features

    def _in_tensorflow(self, *columns):
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(column, tf.string) for column in columns]
        shape = tensors[0].shape
        if shape.rank not in (0, 1):
            raise InputError(f"`texts`: a tensor of shape {shape}; must be a text or [batch]")
        encode = self._by_python if self._in_graph is None else self._by_graph
        features = encode([tf.reshape(tensor, [-1]) for tensor in tensors])
        if shape.rank == 0:
            return {name: tf.squeeze(values, 0) for name, values in features.items()}
        return features

    def _by_graph(self, columns):
        from albert_tf.export.graph_packing import HUB_NAMES, pack

        ids = [self._in_graph.encode(column) for column in columns]
        packed = pack(ids, self._in_graph.symbols, self.max_length)
        return {name: packed[HUB_NAMES[name]] for name in _INPUTS}

    def _by_python(self, columns):
        import tensorflow as tf

        def encode(*columns):
            features = self._in_python(*columns)
            return [features[name] for name in _INPUTS]

        values = tf.numpy_function(encode, columns, [tf.int32] * len(_INPUTS))
        shape = [None, self.max_length]
        return {
            name: tf.ensure_shape(value, shape) for name, value in zip(_INPUTS, values, strict=True)
        }

    @property
    def _in_graph(self):
        """The tokenizer inside a graph; None without TensorFlow Text or with added tokens."""
        can_be_in_graph = not self.tokenizer.added_tokens and _has_tensorflow_text()
        if self._graph_tokenizer is None and can_be_in_graph:
            import tensorflow as tf

            from albert_tf.export.graph_tokenizers import graph_tokenizer

            # Its tables outlive the graph of the pipeline or the model that is being traced.
            with tf.init_scope():
                self._graph_tokenizer = graph_tokenizer(self.tokenizer)
        return self._graph_tokenizer

    def save_assets(self, dir_path):
        """Write the vocabulary into a `.keras` file; Keras calls this."""
        path = self.tokenizer.path
        copy_file(path, os.path.join(dir_path, os.path.basename(path)))

    def load_assets(self, dir_path):
        """Read the vocabulary of a `.keras` file; Keras calls this."""
        if not os.path.isdir(dir_path):
            return  # the file is of an earlier version
        (name,) = os.listdir(dir_path)
        path = os.path.join(dir_path, name)
        self._tokenizer = Tokenizer.load(path, normalization=self._tokenizer.normalization)
        # Keras deletes its copy; this one can be saved again.
        self._tokenizer.path = write_for(self._tokenizer, name, read_bytes(path))

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary": self._tokenizer.path,
            "normalization": self._tokenizer.normalization.to_dict(),
            "max_length": self.max_length,
        }

    @classmethod
    def from_config(cls, config):
        # Earlier versions saved only whether text is lower-cased.
        recorded = config.pop("normalization", {"do_lower_case": config.pop("do_lower_case", None)})
        normalization = converted(recorded, "`normalization`", Normalization)
        return cls(_Saved(config.pop("vocabulary"), normalization), **config)


class _Saved(NamedTuple):
    """What a config tells of a tokenizer, which is read when it is needed, unless assets are."""

    path: str
    normalization: Normalization

    def load(self) -> Tokenizer:
        return Tokenizer.load(self.path, normalization=self.normalization)


def _columns(texts: Any) -> tuple[Any, ...]:
    """Return the texts, or the first and the second texts of pairs."""
    columns = texts if isinstance(texts, tuple) else (texts,)
    if len(columns) not in (1, 2):
        raise InputError(f"`texts`: a tuple of {len(columns)}; must be a pair of texts")
    return columns


def _is_tensorflow(value: Any) -> bool:
    """Return whether a value is a tensor of TensorFlow, which is not loaded to find out."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and tensorflow.is_tensor(value)


@functools.cache
def _has_tensorflow_text() -> bool:
    from albert_tf.export.graph_tokenizers import tensorflow_text

    try:
        tensorflow_text()
    except InputError:
        return False
    return True


def _as_strings(texts: Any) -> Any:
    """Return texts as Python strings; TensorFlow hands them over as bytes."""
    texts = texts.tolist() if isinstance(texts, np.ndarray) else texts
    if isinstance(texts, bytes):
        return texts.decode("utf-8", "replace")
    if isinstance(texts, list):
        return [_as_strings(text) if isinstance(text, bytes) else text for text in texts]
    return texts
