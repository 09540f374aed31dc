"""The order of examples in memory: batches of similar length, padded to as few tokens as they need.

The cost of a batch grows with its longest sequence. So examples of similar length are grouped, and
a batch is padded to the smallest of a few lengths (`length_buckets`): few, since some devices and
kernels compile every length separately.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

from albert_tf.input.examples import Features

# Batches whose examples are sorted by length together: enough for similar lengths in a batch, few
# enough that batches differ from epoch to epoch.
WINDOW = 50

_SMALLEST = 8


def length_buckets(max_seq_length: int) -> tuple[int, ...]:
    """Return the lengths of batches: 8, 16, 24, 32, 48, 64, 96, ... and `max_seq_length`.

    Powers of two and the midpoints between them waste at most a quarter, and are multiples of 8,
    which suits matrix units.
    """
    lengths = [_SMALLEST]
    power = 2 * _SMALLEST
    while power < max_seq_length:
        lengths += [power, power * 3 // 2]
        power *= 2
    return (*(length for length in lengths if length < max_seq_length), max_seq_length)


def batch_lengths(
    features: Features, max_seq_length: int, pad_to_max_length: bool
) -> tuple[int, ...]:
    """Return the lengths that batches of these features may have, ascending.

    Args:
        features: of all examples.
        max_seq_length: length of the longest batches.
        pad_to_max_length: whether every batch has that length.

    Raises:
        ValueError: If a sequence is longer.
    """
    longest = int(features.lengths.max(initial=0))
    if longest > max_seq_length:
        raise ValueError(f"a sequence of {longest} tokens, at most {max_seq_length} are expected")
    return (max_seq_length,) if pad_to_max_length else length_buckets(max_seq_length)


class TrainingOrder:
    """The examples of each training batch, as a function of these arguments alone.

    Examples come in epochs without gaps between them, each with every example once in its own
    order. Batches within an epoch are sorted by length within windows, and then shuffled; a batch
    that spans two epochs is left as it is.

    Args:
        lengths: of the examples, `[examples]`.
        batch_size: examples in a batch.
        seed: of the orders.
        window: number of batches that are sorted together; 1 to sort none.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int, window: int = WINDOW):
        self._lengths = lengths
        self._size = batch_size
        self._seed = seed % 2**64
        self._window = window

    def locate(self, step: int) -> tuple[int, int]:
        """Return the epoch in which batch `step` begins, and its number in the epoch."""
        epoch = step * self._size // len(self._lengths)
        return epoch, step - self._first(epoch)

    def of_epoch(self, epoch: int) -> np.ndarray:
        """Return the batches that begin in an epoch: examples, int32 `[batches, batch_size]`.

        There may be none, if a batch spans several epochs.
        """
        size, start = self._size, epoch * len(self._lengths)
        first, after = self._first(epoch), self._first(epoch + 1)
        whole = max((start + len(self._lengths)) // size, first)
        inside = self._examples(first * size, whole * size).reshape(-1, size)
        draw = np.random.default_rng([self._seed, epoch, 1])
        windows = range(0, len(inside) if self._window > 1 else 0, self._window)
        for begin in windows:
            batches = inside[begin : begin + self._window]
            by_length = np.argsort(self._lengths[batches.ravel()], kind="stable")
            batches[:] = draw.permutation(batches.ravel()[by_length].reshape(-1, size))
        spanning = self._examples(whole * size, after * size).reshape(-1, size)
        return np.concatenate([inside, spanning]).astype(np.int32)

    def _first(self, epoch: int) -> int:
        """Return number of the first batch that begins in an epoch or later."""
        return -(-epoch * len(self._lengths) // self._size)

    def _examples(self, start: int, end: int) -> np.ndarray:
        count = len(self._lengths)
        parts: list[np.ndarray] = [np.zeros(0, np.int64)]
        for epoch in range(start // count, -(-end // count) if end > start else 0):
            order = np.random.default_rng([self._seed, epoch]).permutation(count)
            parts.append(order[max(start - epoch * count, 0) : end - epoch * count])
        return np.concatenate(parts)


def evaluation_order(lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """Return the batches of an evaluation, the longest examples first.

    Args:
        lengths: of the examples, `[examples]`.
        batch_size: examples in a batch.

    Returns:
        Numbers of examples, int32 `[batches, batch_size]`; -1 pads the last batch.
    """
    order = np.argsort(-lengths, kind="stable")
    padded = np.full(-(-len(order) // batch_size) * batch_size, -1, np.int32)
    padded[: len(order)] = order
    return padded.reshape(-1, batch_size)


def fitting(buckets: Sequence[int], lengths: np.ndarray) -> np.ndarray:
    """Return the smallest bucket that holds each of `[batches, examples]`, int32 `[batches]`."""
    longest = lengths.max(axis=1, initial=0).tolist()
    return np.array([buckets[bisect.bisect_left(buckets, length)] for length in longest], np.int32)
