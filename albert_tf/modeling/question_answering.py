"""Models and objectives of answers that are a part of a text (the original's SQuAD heads)."""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels, is_correct
from albert_tf.modeling.layers import SITES, SpanHead, dense, dropout, layer_norm, select
from albert_tf.modeling.losses import MeanObjective, Objective, example_weights

# Logit of positions where an answer can neither start nor end.
_IMPOSSIBLE = -1e30


class SpanObjective(MeanObjective, part="span"):
    """Mean of the cross-entropies of `start_positions` and `end_positions` `[batch]`.

    A prediction is correct if both positions are.

    Example:
        >>> objective = albert_tf.SpanObjective()
        >>> batch = {
        ...     "input_ids": np.ones((1, 3), "int32"),
        ...     "start_positions": np.array([1]),
        ...     "end_positions": np.array([2]),
        ... }
        >>> start_logits, end_logits = np.float32([[0, 9, 0]]), np.float32([[0, 0, 9]])
        >>> outputs = {"start_logits": start_logits, "end_logits": end_logits}
        >>> float(objective.sums(outputs, batch)["span_accuracy"])
        1.0
    """

    labels = ("start_positions", "end_positions")

    def _values(self, outputs, batch, kernels):
        starts, ends = batch["start_positions"], batch["end_positions"]
        start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
        # The number of classes is the sequence length, which may be unknown when tracing.
        losses = sum(
            ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            for labels, logits in ((starts, start_logits), (ends, end_logits))
        )
        hits = is_correct(start_logits, starts) * is_correct(end_logits, ends)
        return losses * 0.5, hits


class ConditionalSpanObjective(Objective):
    """Spans as in `SpanObjective`, plus half of the cross-entropy of `is_impossible` `[batch]`.

    Ends are predicted given the true start, and so is their accuracy.

    Example:
        >>> albert_tf.ConditionalSpanObjective().losses
        ('span_loss', 'answerability_loss')
    """

    parts = ("span", "answerability")
    quantities = ("span_loss", "span_accuracy", "answerability_loss", "answerability_accuracy")
    losses = ("span_loss", "answerability_loss")
    labels = ("start_positions", "end_positions", "is_impossible")

    def weights(self, batch):
        return dict.fromkeys(self.parts, ops.sum(example_weights(batch)))

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        log_probs = {
            "start_logits": outputs["start_log_probs"],
            "end_logits": outputs["end_log_probs"],
        }
        examples, logits = example_weights(batch), outputs["cls_logits"]
        impossible = ops.cast(batch["is_impossible"], "float32")
        losses = ops.binary_crossentropy(impossible, logits, from_logits=True)
        correct = ops.cast(ops.equal(logits > 0, impossible > 0), "float32")
        return {
            **SpanObjective().sums(log_probs, batch, kernels),
            "answerability_loss": ops.sum(examples * losses) * 0.5,
            "answerability_accuracy": ops.sum(examples * correct),
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForQuestionAnswering(EncoderModel):
    """Start and end of an answer, predicted independently (the original's SQuAD 1.1 head).

    Args:
        config: shape of the model.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForQuestionAnswering(config)
        >>> question_and_context = np.array([[2, 14, 9, 3, 21, 22, 23, 3]])
        >>> segments = np.array([[0, 0, 0, 0, 1, 1, 1, 1]])
        >>> outputs = model({"input_ids": question_and_context, "segment_ids": segments})
        >>> tuple(outputs["start_logits"].shape), tuple(outputs["end_logits"].shape)
        ((1, 8), (1, 8))
    """

    objectives = (SpanObjective(),)
    targets = {"start_positions": "start_logits", "end_positions": "end_logits"}

    def __init__(self, config: AlbertConfig, name: str = "albert_for_question_answering", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.span = SpanHead(2, config.initializer_range, name="squad", dtype=self.dtype_policy)
        with keras.name_scope("cls"):
            self.span.build((None, None, config.hidden_size))

    def heads(self, encoded, features, seed, kernels):
        """Compute float32 `start_logits` and `end_logits` `[batch, seq]`, padding included."""
        logits = self.span(encoded["sequence_output"])
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


class StartLogits(keras.layers.Layer):
    """A logit for every position."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.dense = dense(1, config.initializer_range, "dense", self.dtype_policy)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, sequence):
        """`[batch, seq, hidden]` to float32 `[batch, seq]`."""
        return ops.cast(self.dense(sequence)[..., 0], "float32")


class EndLogits(keras.layers.Layer):
    """A logit for every position as the end of an answer with a given start."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        policy, stddev = self.dtype_policy, config.initializer_range
        self.dense_0 = dense(config.hidden_size, stddev, "dense_0", policy)
        self.norm = layer_norm(config, "LayerNorm", policy)
        self.dense_1 = dense(1, stddev, "dense_1", policy)

    def build(self, input_shape):
        width = self.config.hidden_size
        self.dense_0.build((None, 2 * width))
        self.norm.build((None, width))
        self.dense_1.build((None, width))

    def call(self, sequence, starts):
        """Score every position as the end for every start.

        Args:
            sequence: `[batch, seq, hidden]`.
            starts: `[batch, starts, hidden]`, the encoder's output at the starts.

        Returns:
            float32 `[batch, starts, seq]`.
        """
        # The product of a pair is the sum of two: seq + starts rows to multiply, not seq * starts.
        kernel = ops.cast(self.dense_0.kernel, self.compute_dtype)
        of_positions, of_starts = ops.split(kernel, 2)
        hidden = ops.expand_dims(ops.matmul(sequence, of_positions), 1)
        hidden = hidden + ops.expand_dims(ops.matmul(starts, of_starts), 2)
        hidden = ops.tanh(hidden + ops.cast(self.dense_0.bias, self.compute_dtype))
        # Reshaped to rows: TensorFlow 2.21's product of [batch, 1, seq, hidden] and a matrix, which
        # Keras 3.12 uses here, is wrong on a CPU and writes out of bounds.
        shape = ops.shape(hidden)
        rows = ops.reshape(self.norm(hidden), (-1, shape[-1]))
        return ops.cast(ops.reshape(self.dense_1(rows), shape[:-1]), "float32")


class AnswerClass(keras.layers.Layer):
    """One logit per sequence: that it does not contain the answer."""

    def __init__(self, config: AlbertConfig, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.rate = rate
        policy, stddev = self.dtype_policy, config.initializer_range
        self.dense_0 = dense(config.hidden_size, stddev, "dense_0", policy)
        self.dense_1 = dense(1, stddev, "dense_1", policy, use_bias=False)

    def build(self, input_shape):
        self.dense_0.build((None, 2 * self.config.hidden_size))
        self.dense_1.build((None, self.config.hidden_size))

    def call(self, start, cls, seed=None):
        """`[batch, hidden]` at the likely start and at `[CLS]` to float32 `[batch]`."""
        hidden = ops.tanh(self.dense_0(ops.concatenate([start, cls], axis=-1)))
        hidden = dropout(hidden, self.rate, seed, site=SITES - 1)
        return ops.cast(self.dense_1(hidden)[..., 0], "float32")


def possible_positions(features):
    """Return where an answer may be: at `[CLS]` (none), and in the second segment.

    These are booleans `[batch, seq]`, the inverse of the original's feature `p_mask`.
    """
    inside = ops.logical_and(ops.equal(features["segment_ids"], 1), features["input_mask"] > 0)
    # The last token of the segment is [SEP]: no other token of the segment follows it.
    followed = ops.pad(inside[:, 1:], [[0, 0], [0, 1]])
    first = ops.equal(ops.arange(inside.shape[1] or ops.shape(inside)[1]), 0)
    return ops.logical_or(ops.logical_and(inside, followed), first[None])


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertForConditionalQuestionAnswering(EncoderModel):
    """Start of an answer, its end given the start, and whether there is an answer.

    Args:
        config: shape of the model.
        start_n_top: number of starts for which ends are searched.
        end_n_top: number of ends for each start.
        classifier_dropout: dropout rate of the answerability head in training.
        **kwargs: `attention`, `dtype` and other arguments of `keras.Model`.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForConditionalQuestionAnswering(config)
        >>> ids = np.array([[2, 14, 9, 3, 21, 22, 23, 24, 25, 3]])
        >>> segments = np.array([[0, 0, 0, 0, 1, 1, 1, 1, 1, 1]])
        >>> features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": segments}
        >>> outputs = model(features)
        >>> tuple(outputs["start_top_index"].shape), tuple(outputs["end_top_index"].shape)
        ((1, 5), (1, 25))
    """

    feature_names = ("start_positions",)
    objectives = (ConditionalSpanObjective(),)
    targets = {
        "start_positions": "start_log_probs",
        "end_positions": "end_log_probs",
        "is_impossible": "cls_logits",
    }

    def __init__(
        self,
        config: AlbertConfig,
        start_n_top: int = 5,
        end_n_top: int = 5,
        classifier_dropout: float = 0.1,
        name: str = "albert_for_conditional_question_answering",
        **kwargs,
    ):
        super().__init__(config, classifier_dropout=classifier_dropout, name=name, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        policy = self.dtype_policy
        self.start = StartLogits(config, name="start_logits", dtype=policy)
        self.end = EndLogits(config, name="end_logits", dtype=policy)
        self.answer_class = AnswerClass(
            config, classifier_dropout, name="answer_class", dtype=policy
        )
        for head in (self.start, self.end, self.answer_class):
            head.build((None, None, config.hidden_size))

    def heads(self, encoded, features, seed, kernels):
        """Predict the start, the end given the start, and whether there is an answer.

        The features of the encoder must be all three.

        Returns:
            Dictionary of `cls_logits` `[batch]`, positive for no answer. With the true starts in
            the feature `start_positions` `[batch]`, also `start_log_probs` and `end_log_probs`
            `[batch, seq]`, the latter given these starts. Except in training also
            `start_top_log_probs` and `start_top_index` `[batch, start_n_top]`, and
            `end_top_log_probs` and `end_top_index` `[batch, start_n_top * end_n_top]`, grouped by
            start. All float32, indexes int32.

        Raises:
            InputError: Without `input_mask`, `segment_ids` or, in training, `start_positions`.
        """
        training = seed is not None
        for name in ("input_mask", "segment_ids", *(("start_positions",) if training else ())):
            if name not in features:
                raise InputError(f"`features`: has no {name}, which {self.name} needs")
        outputs: dict[str, Any] = {}
        sequence = encoded["sequence_output"]
        possible = possible_positions(features)
        start_log_probs = _log_probs(self.start(sequence), possible)
        if "start_positions" in features:
            starts = features["start_positions"][:, None]
            end_log_probs = self._end_log_probs(sequence, starts, possible)
            outputs |= {"start_log_probs": start_log_probs, "end_log_probs": end_log_probs[:, 0]}
        if not training:
            start_top, starts = _top(start_log_probs, self.start_n_top)
            end_log_probs = self._end_log_probs(sequence, starts, possible)
            end_top, ends = _top(end_log_probs, self.end_n_top)
            flat = (-1, self.start_n_top * self.end_n_top)
            outputs |= {
                "start_top_log_probs": start_top,
                "start_top_index": ops.cast(starts, "int32"),
                "end_top_log_probs": ops.reshape(end_top, flat),
                "end_top_index": ops.reshape(ops.cast(ends, "int32"), flat),
            }
        likely = ops.cast(ops.exp(start_log_probs), sequence.dtype)
        likely_start = ops.matmul(likely[:, None], sequence)[:, 0]
        outputs["cls_logits"] = self.answer_class(likely_start, sequence[:, 0], seed=seed)
        return outputs

    def _end_log_probs(self, sequence, starts, possible):
        """Return log-probabilities `[batch, starts, seq]` of the ends, given the starts."""
        return _log_probs(self.end(sequence, select(sequence, starts)), possible[:, None])

    def get_config(self):
        return {
            **super().get_config(),
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
        }


def _log_probs(logits, possible):
    return ops.log_softmax(ops.where(possible, logits, _IMPOSSIBLE))


def _top(log_probs, count):
    """Return the best `count` values of the last axis and their indexes, padded."""
    widths = [[0, 0]] * (len(log_probs.shape) - 1) + [[0, count - 1]]
    return ops.top_k(ops.pad(log_probs, widths, constant_values=_IMPOSSIBLE), count)
