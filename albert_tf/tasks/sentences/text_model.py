"""Turns raw strings into vectors, compares them, and learns which texts belong together."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.errors import InputError
from albert_tf.finetuning.task import ExampleSet, Outputs
from albert_tf.input.examples import Features
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.tasks.sentences import KIND
from albert_tf.tasks.sentences.model import POOLING as _POOLING
from albert_tf.tasks.sentences.options import SentenceOptions, read_settings_in
from albert_tf.tasks.sentences.readers import TextPair
from albert_tf.tasks.sentences.task import SentenceTask, numbered, unit_length
from albert_tf.text_models.fitting import SEED
from albert_tf.text_models.inputs import (
    as_list,
    as_texts,
    check_number,
    check_same_length,
    check_text,
    check_whole_number,
    shown_value,
)
from albert_tf.text_models.task_model import TaskModel
from albert_tf.tokenizers import packing

# "pooler" is an output of the encoder.
POOLING = (*_POOLING, "pooler")


class SentenceEncoder(TaskModel[SentenceTask]):
    """Computes a vector for every text.

        encoder = albert_tf.SentenceEncoder.from_preset("albert/albert-base-v2")
        encoder.fit([("Where is the cat?", "It sleeps on the mat."), ...])
        vectors = encoder.encode(["A fine film.", "I liked it.", "It rains."])
        encoder.similarity(vectors, vectors)

    Any weights will do, since heads are ignored; those that were not trained for it compute vectors
    of little use. The attribute `model` is an `albert_tf.AlbertEncoder`.

    `from_preset` also takes options of run_sentences.py: `max_seq_length`, `albert_dropout`,
    `pooling` and `temperature`. Methods raise `InputError` if an argument is invalid.

    Attributes:
        task: the task of `albert_tf.tasks.sentences` behind it.

    Example:
        >>> encoder = albert_tf.SentenceEncoder.from_preset("albert/albert-base-v2")
        >>> vectors = encoder.encode(["A fine film.", "I liked it.", "It rains."])
        >>> vectors.shape, encoder.similarity(vectors, vectors).shape
        ((3, 768), (3, 3))
    """

    kind = KIND
    settings = ("max_seq_length", "albert_dropout", "pooling", "temperature")
    _options: SentenceOptions

    @classmethod
    def _from_preset(cls, preset, dtype, *, seed=SEED, **settings):
        if not cls._has_head(preset):
            longest = preset.config.max_position_embeddings
            recorded = read_settings_in(preset.folder)
            length = min(recorded.get("max_seq_length", longest), longest)
            settings = {**recorded, "max_seq_length": length, **settings}
        return super()._from_preset(preset, dtype, seed=seed, **settings)

    @property
    def model(self) -> AlbertEncoder:
        """The encoder. Its weights may be changed, by Keras or by hand, at any time."""
        return self._trained_model.encoder

    def fit(
        self, pairs: Any, scores: Any = None, validation_data: Any = None, **arguments: Any
    ) -> keras.callbacks.History:
        """Train the encoder, as run_sentences.py does, with the `fit` of Keras.

        Without scores, the second text of a pair must score above those of the other pairs in a
        batch, so larger batches are harder. With scores, cosines are fitted to them.

        Args:
            pairs: tuples of two texts that belong together, or of three, the last of which does not
                belong to the first (a hard negative).
            scores: a number for each pair of two texts, how similar they are.
            validation_data: pairs, or, with scores, a tuple of pairs and scores; their loss is
                computed after every epoch.
            **arguments: `epochs`, `batch_size`, ..., as described in `FitArguments`.

        Returns:
            Keras' `History`, with the loss of every epoch.
        """
        if scores is None and not isinstance(validation_data, tuple | None):
            validation_data = (validation_data,)
        columns = {"pairs": pairs} | ({} if scores is None else {"scores": scores})
        examples, held_out = self._given(self._pairs, columns, validation_data, arguments)
        task = self._use_scores(scores is not None)
        task.learn_scale(examples)
        self._trained_model.objectives = (task.objective,)
        return self._fit(examples, held_out, arguments)

    def evaluate(self, pairs: Any, scores: Any = None, batch_size: int = 32) -> dict[str, float]:
        """Search for the second text of every pair, or compare cosines with scores.

        Args:
            pairs, scores: as for `fit`.
            batch_size: texts that are computed at a time.

        Returns:
            Results by name as in `eval_results.txt`: recall at 1, 5 and 10 and the mean reciprocal
            rank (`eval_mrr`) among the second texts of all pairs; with scores, the correlations
            `spearman` and `pearson`.
        """
        self._use_scores(scores is not None)
        return self._score(self._pairs(pairs, scores), batch_size)

    def encode(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
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
                fine-tuning. By default that which the vectors were trained with, else "mean".
            layer: which hidden states are pooled: 0 for the input of the first layer, 1 for the
                output of the first layer, ..., or from the end: -1 for the output of the last.
            batch_size: texts that are computed at a time.
            normalize: whether to scale each vector to length 1, so that dot products are cosines.
            max_length: maximum length of a text in tokens, special symbols included; by default
                that which the vectors were trained with, else as long as the model reads.

        Returns:
            float32 `[texts, hidden]`; one row also for a single text.
        """
        config, options = self.model.config, self._known_task().options
        pooling = options.pooling if pooling is None else pooling
        layer = self._checked_layer(pooling, layer)
        longest = config.max_position_embeddings
        length = options.max_seq_length if max_length is None else max_length
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
        return unit_length(vectors) if normalize else vectors

    def similarity(self, a: Any, b: Any = None, **arguments: Any) -> np.ndarray:
        """Compute the cosine similarity of every text or vector of `a` with every one of `b`.

        Args:
            a: texts, or vectors `[n, hidden]`.
            b: texts, or vectors `[m, hidden]`; by default `a`.
            **arguments: of `encode`, for texts.

        Returns:
            float32 `[n, m]`, from -1 to 1.
        """
        first = self._vectors(a, "a", arguments)
        second = first if b is None else self._vectors(b, "b", arguments)
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"`b`: vectors of size {second.shape[1]}; must be as in `a`, {first.shape[1]}"
            )
        return np.clip(unit_length(first) @ unit_length(second).T, -1, 1)

    def _predict_rows(
        self, columns: Mapping[str, list], batch_size: int, **options: Any
    ) -> list[dict[str, Any]]:
        each = (self.encode(texts, batch_size=batch_size, **options) for texts in columns.values())
        return list(_results(*each))

    @staticmethod
    def _predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
        batches = (export("serving_default", {"text": texts}) for texts in columns.values())
        return list(_results(*(np.concatenate([o["vector"] for o in each]) for each in batches)))

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
        paths = self._preset.weights.tensors
        if pooling == "pooler" and not any(path.startswith("bert/pooler/") for path in paths):
            raise InputError("`pooling`=pooler: the weights have no pooler; use mean or cls")
        return layer

    def _predicting_model(self) -> keras.Model:
        return _PooledEncoder(self.model)

    def _outputs(self, examples: ExampleSet, batch_size: int) -> Outputs:
        texts, _ = numbered(examples.examples, with_negatives=False)
        return {"vectors": self.encode(texts, batch_size=batch_size)}

    def _use_scores(self, scored: bool) -> SentenceTask:
        task = self._known_task()
        if task.options.scored != scored:
            column = "score" if scored else None
            options = dataclasses.replace(task.options, task_name="table", score_column=column)
            task = SentenceTask(options, self.tokenizer)
            self._use_task(task)
        return task

    @staticmethod
    def _pairs(pairs: Any, scores: Any = None) -> list[TextPair]:
        rows = as_list(pairs, "pairs")
        numbers = [None] * len(rows) if scores is None else as_list(scores, "scores")
        check_same_length(rows, numbers, "scores", "pairs")
        found = []
        for number, (row, score) in enumerate(zip(rows, numbers, strict=True)):
            place = f"`pairs`[{number}]"
            is_row = isinstance(row, tuple | list) and len(row) in (2, 3)
            if not is_row or len(row) != len(rows[0]) or (len(row) == 3 and scores is not None):
                sizes = "two texts" if scores is not None or not is_row else f"{len(rows[0])} texts"
                raise InputError(f"{place}: must be a tuple of {sizes}, not {shown_value(row)}")
            for text in row:
                check_text(text, place)
            if scores is not None:
                check_number(f"scores[{number}]", score)
            negative = row[2] if len(row) == 3 else None
            found.append(TextPair(place, row[0], row[1], negative, score))
        return found


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


def _results(vectors: np.ndarray, others: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    for number, vector in enumerate(vectors):
        row = {"vector": vector}
        if others is not None:
            row["similarity"] = float(np.dot(*unit_length(np.stack([vector, others[number]]))))
        yield row
