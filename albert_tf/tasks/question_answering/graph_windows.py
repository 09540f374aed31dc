"""Windows of long contexts as a model reads them, inside a TensorFlow graph.

The counterpart of `albert_tf.tasks.question_answering.windows`.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.export.graph_packing import Symbols, packed, slices, truncate
from albert_tf.tasks.question_answering.options import QuestionAnsweringSettings


class Windows(NamedTuple):
    """Sequences of a question and a part of its context, question by question.

    Attributes:
        features: inputs of the model, `[windows, seq]`.
        question: int64 `[windows]`, index of the question.
        position: int64 `[windows]`, position of the part's first token in the sequence.
        first: int64 `[windows]`, index of that token in the context.
        token: int64 `[windows, part]`, indices of the part's tokens among those of all contexts;
            padding repeats some token.
        inside: bool `[windows, part]`, False for padding.
        may_start: bool `[windows, part]`, whether this window has the most context of the token.
    """

    features: dict[str, tf.Tensor]
    question: tf.Tensor
    position: tf.Tensor
    first: tf.Tensor
    token: tf.Tensor
    inside: tf.Tensor
    may_start: tf.Tensor


def make_windows(
    queries: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    symbols: Symbols,
    settings: QuestionAnsweringSettings,
) -> Windows:
    """Split the contexts of questions into windows.

    Args:
        queries: ids of the questions, int32 `[questions, (tokens)]`.
        contexts: ids of their contexts, int32 `[questions, (tokens)]`.
        symbols: ids of the special symbols.
        settings: lengths.
    """
    assert settings.max_seq_length is not None  # task_settings() sets it
    queries = truncate(queries, settings.max_query_length)
    tokens = contexts.row_lengths()
    room = settings.max_seq_length - 3 - queries.row_lengths()
    step = tf.minimum(room, settings.doc_stride)
    parts = 1 + (tf.maximum(tokens - room, 0) + step - 1) // step

    question = tf.repeat(tf.range(tf.size(parts, tf.int64)), parts)
    first = tf.ragged.range(parts).flat_values * tf.gather(step, question)
    length = tf.minimum(tf.gather(tokens, question) - first, tf.gather(room, question))
    queries = slices(
        queries, question, tf.zeros_like(first), tf.gather(queries.row_lengths(), question)
    )
    features = packed(queries, slices(contexts, question, first, length), symbols)

    place = tf.range(tf.maximum(tf.reduce_max(length), 1))[None]
    inside = place < length[:, None]
    token = tf.gather(contexts.row_starts(), question)[:, None] + first[:, None] + place
    token = tf.where(inside, token, 0)
    may_start = _has_most_context(token, inside, place, length, 1 + tf.size(contexts.flat_values))
    position = queries.row_lengths() + 2
    return Windows(features, question, position, first, token, inside, may_start)


def _has_most_context(token, inside, place, length, tokens):
    """Compute `max_context` of `albert_tf.tasks.question_answering.windows` for all tokens."""
    before, after = place, length[:, None] - 1 - place
    context = tf.cast(tf.minimum(before, after), tf.float64)
    context += 0.01 * tf.cast(length[:, None], tf.float64)
    context = tf.where(inside, context, -1.0)
    most = tf.gather(tf.math.unsorted_segment_max(context, token, tokens), token)
    window = tf.range(tf.size(length))[:, None] + tf.zeros_like(token, tf.int32)
    window = tf.where(inside & (context == most), window, tf.int32.max)
    earliest = tf.math.unsorted_segment_min(window, token, tokens)
    return inside & (window == tf.gather(earliest, token))
