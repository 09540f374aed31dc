"""Packs token ids into the inputs of a model, inside a TensorFlow graph."""

from typing import NamedTuple

import tensorflow as tf


class Symbols(NamedTuple):
    """Ids of the special symbols around texts."""

    cls: int
    sep: int
    pad: int


def slices(tokens: tf.RaggedTensor, rows, first, length) -> tf.RaggedTensor:
    """Slice rows of a ragged tensor `[texts, (tokens)]` into parts `[parts, (tokens)]`.

    Each is of a row and has the index of its first token in it and a length, int64 `[parts]`.
    """
    begin = tf.gather(tokens.row_starts(), rows) + first
    positions = tf.ragged.range(begin, begin + length)
    return positions.with_flat_values(tf.gather(tokens.flat_values, positions.flat_values))


def truncate(tokens: tf.RaggedTensor, length, from_end: bool = False) -> tf.RaggedTensor:
    """Truncate each row to its first, or last, `length` tokens, a scalar or int64 `[texts]`."""
    available = tokens.row_lengths()
    length = tf.minimum(available, tf.cast(length, tf.int64))
    first = available - length if from_end else tf.zeros_like(available)
    return slices(tokens, tf.range(tokens.nrows()), first, length)


def keep_ends(tokens: tf.RaggedTensor, length) -> tf.RaggedTensor:
    """Compute `albert_tf.tokenizers.packing.keep_ends` of each row."""
    length = tf.minimum(tokens.row_lengths(), tf.cast(length, tf.int64))
    first = (length + 3) // 4
    ends = [truncate(tokens, first), truncate(tokens, length - first, from_end=True)]
    return tf.concat(ends, axis=1)


def windows(tokens: tf.RaggedTensor, room: int) -> tuple[tf.Tensor, tf.Tensor, tf.RaggedTensor]:
    """Split texts `[texts, (tokens)]` into windows of at most `room` tokens.

    They are those of `albert_tf.tokenizers.packing.window_starts`.

    Returns:
        The text of each window and its first token, int64 `[windows]`; and the tokens of each.
    """
    step = max(room // 2, 1)
    lengths = tokens.row_lengths()
    last = tf.maximum(lengths - room, 0)
    counts = (last + step - 1) // step + 1
    text = tf.repeat(tf.range(tokens.nrows()), counts)
    start = tf.minimum(tf.ragged.range(counts).flat_values * step, tf.gather(last, text))
    length = tf.minimum(tf.gather(lengths, text) - start, room)
    return text, start, slices(tokens, text, start, length)


def packed(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, symbols: Symbols
) -> dict[str, tf.Tensor]:
    """Pack `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, padded to the longest.

    The texts are int32 `[texts, (tokens)]`; `input_ids`, `input_mask` and `segment_ids` are int32
    `[texts, seq]`.
    """

    def column(id: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([first.nrows(), 1], id))

    parts = [column(symbols.cls), first, column(symbols.sep)]
    second_parts = [] if second is None else [second, column(symbols.sep)]
    ids = tf.concat([*parts, *second_parts], axis=1)
    segments = [tf.zeros_like(part) for part in parts] + [tf.ones_like(p) for p in second_parts]
    return {
        "input_ids": ids.to_tensor(symbols.pad),
        "input_mask": tf.ones_like(ids).to_tensor(0),
        "segment_ids": tf.concat(segments, axis=1).to_tensor(0),
    }
