"""Turns raw strings into vectors, and compares them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.errors import InputError
from albert_tf.input.examples import Features
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.text_models.base import TextModel, create_with_weights
from albert_tf.text_models.inputs import as_texts, check_whole_number
from albert_tf.tokenizers import Tokenizer, packing


def _mean(hidden, mask):
    """Return the mean of `[batch, seq, hidden]` over the tokens of `mask` `[batch, seq]`."""
    weights = ops.expand_dims(ops.cast(mask, "float32"), -1)
    return ops.sum(hidden * weights, axis=1) / ops.sum(weights, axis=1)


def _cls(hidden, mask):
    """Return the vector at `[CLS]`."""
    return hidden[:, 0]


# Name -> function(hidden, mask) of a layer's output. "pooler" is an output of the encoder.
_POOLING: dict[str, Callable[[Any, Any], Any]] = {"mean": _mean, "cls": _cls}
POOLING = (*_POOLING, "pooler")


class SentenceEncoder(TextModel):
    """Computes a vector for every text.

        encoder = albert_tf.SentenceEncoder.from_preset("albert/albert-base-v2")
        vectors = encoder.encode(["A fine film.", "I liked it.", "It rains."])
        encoder.similarity(vectors, vectors)

    Any weights will do, since heads are ignored. The attribute `model` is an
    `albert_tf.AlbertEncoder`.

    Args:
        model: the encoder, with its weights.
        tokenizer: of the model.
        has_pooler: whether the weights of the pooler were trained; those of question answering lack
            it.

    Example:
        >>> encoder = albert_tf.SentenceEncoder.from_preset("albert/albert-base-v2")
        >>> vectors = encoder.encode(["A fine film.", "I liked it.", "It rains."])
        >>> vectors.shape, encoder.similarity(vectors, vectors).shape
        ((3, 768), (3, 3))
    """

    def __init__(self, model: AlbertEncoder, tokenizer: Tokenizer, has_pooler: bool = True):
        super().__init__(model, tokenizer)
        self._has_pooler = has_pooler

    @classmethod
    def _from_preset(cls, preset, dtype):  # type: ignore[override]  # takes nothing else
        model, missing = create_with_weights(
            lambda: AlbertEncoder(preset.config, dtype=dtype), preset, seed=0
        )
        return cls(model, preset.tokenizer, not any("/pooler/" in path for path in missing))

    def encode(
        self,
        texts: str | Sequence[str],
        pooling: str = "mean",
        layer: int = -1,
        batch_size: int = 32,
        normalize: bool = False,
        max_length: int | None = None,
    ) -> np.ndarray:
        """Compute a vector for every text.

        Texts are computed in batches of similar length; the result is in the order of the texts.

        Args:
            texts: a text, or a sequence of texts. Tokens beyond `max_length` are dropped.
            pooling: "mean", the mean over all tokens but padding, `[CLS]` and `[SEP]` included, as
                in sentence-transformers; "cls", the hidden state at `[CLS]`; or "pooler", the
                output of the pooler, which was trained by predicting the order of sentences, or by
                fine-tuning.
            layer: which hidden states are pooled: 0 for the input of the first layer, 1 for the
                output of the first layer, ..., or from the end: -1 for the output of the last.
            batch_size: texts that are computed at a time.
            normalize: whether to scale each vector to length 1, so that dot products are cosines.
            max_length: maximum length of a text in tokens, special symbols included; by default as
                long as the model reads.

        Returns:
            float32 `[texts, hidden]`; one row also for a single text.

        Raises:
            InputError: If an argument is invalid, or the weights have no pooler.
        """
        config = self.model.config
        layer = self._checked_layer(pooling, layer)
        longest = config.max_position_embeddings
        length = longest if max_length is None else max_length
        check_whole_number("max_length", length, packing.MIN_LENGTH)
        if length > longest:
            raise InputError(f"`max_length`={length}: the model reads at most {longest} tokens")
        rows = self.tokenizer(as_texts(texts, "texts"), max_length=length, padding=False)
        if not rows["input_ids"]:
            return np.zeros((0, config.hidden_size), np.float32)
        sequences = zip(rows["input_ids"], rows["segment_ids"], strict=True)
        features = Features(sequences, self.tokenizer.pad_id)
        name = _output_name(pooling, layer)
        vectors = self._predict(features, (name,), batch_size, length)[name]
        return _unit_length(vectors) if normalize else vectors

    def similarity(self, a: Any, b: Any = None, **arguments: Any) -> np.ndarray:
        """Compute the cosine similarity of every text or vector of `a` with every one of `b`.

        Args:
            a: texts, or vectors `[n, hidden]`.
            b: texts, or vectors `[m, hidden]`; by default `a`.
            **arguments: of `encode`, for texts.

        Returns:
            float32 `[n, m]`, from -1 to 1.

        Raises:
            InputError: As of `encode`; or vectors differ in size.
        """
        first = self._vectors(a, "a", arguments)
        second = first if b is None else self._vectors(b, "b", arguments)
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"`b`: vectors of size {second.shape[1]}; must be as in `a`, {first.shape[1]}"
            )
        return np.clip(_unit_length(first) @ _unit_length(second).T, -1, 1)

    def _vectors(self, values: Any, argument: str, arguments: dict[str, Any]) -> np.ndarray:
        array = None if isinstance(values, str) else np.asarray(values)
        if array is not None and array.ndim == 2 and np.issubdtype(array.dtype, np.floating):
            return array.astype(np.float32)
        return self.encode(as_texts(values, argument), **arguments)

    def _checked_layer(self, pooling: str, layer: int) -> int:
        """Return the layer counted from the start, if it exists and has this pooling."""
        if pooling not in POOLING:
            raise InputError(f"`pooling`={pooling}: must be one of {', '.join(POOLING)}")
        last = len(self.model.depth_blocks)
        check_whole_number("layer", layer, -last - 1)
        if layer > last:
            raise InputError(f"`layer`={layer}: must be from {-last - 1} to {last}")
        layer = layer if layer >= 0 else layer + last + 1
        if pooling == "pooler" and layer != last:
            raise InputError("`pooling`=pooler: reads the last layer; leave out `layer`")
        if pooling == "pooler" and not self._has_pooler:
            raise InputError("`pooling`=pooler: the weights have no pooler; use mean or cls")
        return layer

    def _predicting_model(self) -> keras.Model:
        return _PooledEncoder(self.model)


class _PooledEncoder(keras.Model):
    """An encoder with the pooled vectors of all layers as outputs, `[batch, hidden]` each.

    A compiled step computes only the one that it returns.
    """

    def __init__(self, encoder: AlbertEncoder):
        super().__init__(name="pooled_encoder")
        self.encoder = encoder
        self.built = True

    def call(self, features, training: bool = False):
        encoded = self.encoder(features, training=training, output_embeddings=True)
        layers = [encoded["projected_embeddings"], *encoded["encoder_outputs"]]
        vectors = {
            _output_name(name, number): pool(ops.cast(hidden, "float32"), features["input_mask"])
            for name, pool in _POOLING.items()
            for number, hidden in enumerate(layers)
        }
        pooled = ops.cast(encoded["pooled_output"], "float32")
        return {**vectors, _output_name("pooler", len(layers) - 1): pooled}


def _output_name(pooling: str, layer: int) -> str:
    return f"{pooling}_{layer}"


def _unit_length(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)
