"""Token ids of texts put together to what a model reads, inside a TensorFlow graph."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Symbols(NamedTuple):
    """Ids of the symbols around texts."""

    cls: int
    sep: int
    pad: int


def slices(tokens: tf.RaggedTensor, rows, first, length) -> tf.RaggedTensor:
    """Parts of rows.

    Args:
        tokens: `[texts, (tokens)]`.
        rows: int64 `[parts]`, the row of each part.
        first: int64 `[parts]`, its first token in that row.
        length: int64 `[parts]`, its tokens.

    Returns:
        `[parts, (tokens)]`.
    """
    begin = tf.gather(tokens.row_starts(), rows) + first
    places = tf.ragged.range(begin, begin + length)
    return places.with_flat_values(tf.gather(tokens.flat_values, places.flat_values))


def kept(tokens: tf.RaggedTensor, length, from_end: bool = False) -> tf.RaggedTensor:
    """The first, or last, `length` tokens of each row, int64 `[texts]` or one for all."""
    there = tokens.row_lengths()
    length = tf.minimum(there, tf.cast(length, tf.int64))
    first = there - length if from_end else tf.zeros_like(there)
    return slices(tokens, tf.range(tokens.nrows()), first, length)


def shortened(first, second, room: int):
    """`shortened` of `classification.featurize` for many pairs: int64 `[pairs]` each."""
    excess = tf.maximum(first + second - room, 0)
    cut = tf.minimum(excess, tf.abs(first - second))
    longer = first > second
    first = tf.where(longer, first - cut, first)
    second = tf.where(longer, second, second - cut)
    rest = excess - cut
    return first - rest // 2, second - (rest - rest // 2)


def packed(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, symbols: Symbols
) -> dict[str, tf.Tensor]:
    """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, as long as the longest.

    Args:
        first: int32 `[texts, (tokens)]`.
        second: as many; None for single texts.
        symbols: their ids.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 `[texts, seq]`.
    """

    def column(id: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([first.nrows(), 1], id))

    parts = [column(symbols.cls), first, column(symbols.sep)]
    of_second = [] if second is None else [second, column(symbols.sep)]
    ids = tf.concat([*parts, *of_second], axis=1)
    segments = [tf.zeros_like(part) for part in parts] + [tf.ones_like(p) for p in of_second]
    return {
        "input_ids": ids.to_tensor(symbols.pad),
        "input_mask": tf.ones_like(ids).to_tensor(0),
        "segment_ids": tf.concat(segments, axis=1).to_tensor(0),
    }
