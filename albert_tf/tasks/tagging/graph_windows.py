"""Windows of texts as a tagger reads them, inside a TensorFlow graph.

The counterpart of `albert_tf.tasks.tagging.windows`.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.export.graph_characters import lower_bound
from albert_tf.export.graph_packing import Symbols, packed, windows

_FAR = 1 << 60


class EncodedWords(NamedTuple):
    """Texts as tokens, and where their words are.

    Attributes:
        ids, starts, ends: tokens and their characters, `[texts, (tokens)]`, as
            `GraphTokenizer.encode_with_offsets` returns them.
        rows: int64 `[words]`, the text of each word; never decreases.
        word_starts, word_ends: int64 `[words]`, characters of each word.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    rows: tf.Tensor
    word_starts: tf.Tensor
    word_ends: tf.Tensor


class TagWindows(NamedTuple):
    """Windows of texts, text by text.

    Attributes:
        features: inputs of the model, `[windows, seq]`.
        row, position: int64 `[words]`, window and position where each word is predicted; 0 for a
            word without a token of its own.
        own: bool `[words]`, whether a word has one.
        text: int64 `[windows]`, the text of each window.
    """

    features: dict[str, tf.Tensor]
    row: tf.Tensor
    position: tf.Tensor
    own: tf.Tensor
    text: tf.Tensor

    def first(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the first window of each of some texts, int64."""
        return tf.cast(lower_bound(self.text, texts), tf.int64)


def make_windows(words: EncodedWords, symbols: Symbols, max_seq_length: int) -> TagWindows:
    """Split texts into windows that overlap by half.

    Args:
        words: the texts.
        symbols: ids of the special symbols.
        max_seq_length: maximum number of tokens in a window.
    """
    room = max_seq_length - 2
    text, start, parts = windows(words.ids, room)
    features = packed(parts, None, symbols)

    token = _first_tokens(words)
    own = token >= 0
    # A word is in the window with the nearest middle. Middles are doubled, to be whole numbers, and
    # ascend over all texts.
    longest = tf.reduce_max(tf.concat([words.ids.row_lengths(), [0]], 0))
    beyond = 2 * longest + 2 * max_seq_length
    between = text[1:] == text[:-1]
    middle = start[1:] + start[:-1] + room - 1 + text[1:] * beyond
    row = tf.cast(
        lower_bound(tf.boolean_mask(middle, between), words.rows * beyond + 2 * token), tf.int64
    )
    row = tf.where(own, row + words.rows, 0)
    position = tf.where(own, token - tf.gather(tf.pad(start, [[0, 1]]), row) + 1, 0)
    return TagWindows(features, row, position, own, text)


def _first_tokens(words: EncodedWords) -> tf.Tensor:
    """Return the first token of each word that is not that of an earlier word, or -1, int64."""
    rows = words.ids.value_rowids()
    starts, ends = words.starts.values, words.ends.values
    visible = tf.where(starts < ends)[:, 0]
    rows, starts, ends = (tf.gather(values, visible) for values in (rows, starts, ends))
    # Numbers that ascend over all texts. Tokens never start before the tokens before them.
    beyond = 1 + tf.reduce_max(tf.concat([ends, words.word_ends, [0]], 0))
    reached = running_max(rows * beyond + ends)
    text = words.rows * beyond
    first = tf.cast(lower_bound(reached, text + words.word_starts + 1), tf.int64)
    after = tf.cast(lower_bound(rows * beyond + starts, text + words.word_ends), tf.int64)
    free = tf.concat([[0], _used(first, after)], 0)[: tf.size(first)]
    token = tf.maximum(first, free)
    in_row = tf.gather(tf.pad(visible, [[0, 1]]), token) - tf.gather(
        words.ids.row_starts(), words.rows
    )
    return tf.where(token < after, in_row, -1)


def _used(first: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """Return how many tokens are used after each word, which takes the next one that it may.

    That is `used[k] = min(max(used[k - 1], first[k]) + 1, after[k])`. A sequence of such steps is
    one of the form `min(max(used + shift, low), high)`, so prefixes are combined by doubling.

    Args:
        first: int64 `[words]`, the first token that a word may take; ascends.
        after: int64 `[words]`, the token after the last one; ascends.
    """

    def more(distance, shift, low, high):
        return distance < tf.size(shift)

    def combine(distance, shift, low, high):
        before = (
            tf.concat([tf.fill([distance], tf.constant(nothing, tf.int64)), values[:-distance]], 0)
            for values, nothing in ((shift, 0), (low, -_FAR), (high, _FAR))
        )
        shift_before, low_before, high_before = before
        return (
            2 * distance,
            shift_before + shift,
            tf.maximum(low_before + shift, low),
            tf.minimum(tf.maximum(high_before + shift, low), high),
        )

    state = (1, tf.ones_like(first), first + 1, after)
    _, shift, low, high = tf.while_loop(more, combine, state)
    return tf.minimum(tf.maximum(shift, low), high)


def running_max(values: tf.Tensor) -> tf.Tensor:
    """Return the largest of each value and those before it."""

    def more(distance, values):
        return distance < tf.size(values)

    def compare(distance, values):
        before = tf.concat([values[:distance], values[:-distance]], 0)
        return 2 * distance, tf.maximum(values, before)

    return tf.while_loop(more, compare, (1, values))[1]
