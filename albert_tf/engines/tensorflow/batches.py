"""Batches of examples of similar length, each padded to as few tokens as it needs.

The cost of a batch grows with its longest sequence. So examples of similar length are grouped, and
a batch is padded to the smallest of a few lengths (`length_buckets`): few, since some devices and
kernels compile every length separately.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.engines.tensorflow.pipelines import WHOLE, Share, ending_at_once
from albert_tf.input.examples import Features

# Batches whose examples are sorted by length together: enough for similar lengths in a batch, few
# enough that batches differ from epoch to epoch.
WINDOW = 50

_SMALLEST = 8


def length_buckets(max_seq_length: int) -> tuple[int, ...]:
    """The lengths of batches: 8, 16, 24, 32, 48, 64, 96, ... and `max_seq_length`.

    Powers of two and the midpoints between them waste at most a quarter, and are multiples of 8,
    which suits matrix units.
    """
    lengths = [_SMALLEST]
    power = 2 * _SMALLEST
    while power < max_seq_length:
        lengths += [power, power * 3 // 2]
        power *= 2
    return (*(length for length in lengths if length < max_seq_length), max_seq_length)


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
        """The epoch in which batch number `step` begins, and its number among those batches."""
        epoch = step * self._size // len(self._lengths)
        return epoch, step - self._first(epoch)

    def of_epoch(self, epoch: int) -> np.ndarray:
        """The batches that begin in an epoch: numbers of examples, int32 `[batches, batch_size]`.

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
        """Number of the first batch that begins in an epoch or later."""
        return -(-epoch * len(self._lengths) // self._size)

    def _examples(self, start: int, end: int) -> np.ndarray:
        """Numbers of the examples at some positions in the sequence of all epochs."""
        count = len(self._lengths)
        parts: list[np.ndarray] = [np.zeros(0, np.int64)]
        for epoch in range(start // count, -(-end // count) if end > start else 0):
            order = np.random.default_rng([self._seed, epoch]).permutation(count)
            parts.append(order[max(start - epoch * count, 0) : end - epoch * count])
        return np.concatenate(parts)


class _Gather:
    """Makes batches of features inside `tf.data`, without Python.

    Args:
        features: of all examples.
        buckets: lengths of batches, ascending.
        batch_size: examples in the batch of a replica.
    """

    def __init__(self, features: Features, buckets: Sequence[int], batch_size: int):
        longest = int(features.lengths.max(initial=0))
        if longest > buckets[-1]:
            raise ValueError(f"a sequence of {longest} tokens, at most {buckets[-1]} are expected")
        lengths = features.lengths.astype(np.int64)
        small = features.ids.max(initial=0) < 2**16 and features.ids.min(initial=0) >= 0
        self._choices, self._pad_id = features.choices, features.pad_id
        self._fixed = buckets[0] if len(buckets) == 1 else None
        self._batch_size = batch_size
        with tf.device("CPU:0"):
            self._ids = tf.constant(features.ids.astype(np.uint16) if small else features.ids)
            self._segments = tf.constant(features.segments)
            self._starts = tf.constant(np.cumsum(lengths) - lengths)
            self._lengths = tf.constant(lengths)
            self._arrays = {name: tf.constant(value) for name, value in features.arrays.items()}

    def __call__(self, examples: tf.Tensor, length: tf.Tensor) -> dict[str, tf.Tensor]:
        """The features of the examples with these numbers, `[batch]`, padded to a length."""
        sequences, shape = examples, [self._batch_size, self._fixed]
        if self._choices:
            sequences = examples[:, None] * self._choices + tf.range(self._choices)
            shape.insert(1, self._choices)
        places = tf.range(tf.cast(length, tf.int64))
        mask = places < tf.gather(self._lengths, sequences)[..., None]
        places = tf.where(mask, tf.gather(self._starts, sequences)[..., None] + places, 0)
        ids = tf.cast(tf.gather(self._ids, places), tf.int32)
        segments = tf.cast(tf.gather(self._segments, places), tf.int32)
        tokens = {
            "input_ids": tf.where(mask, ids, self._pad_id),
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.where(mask, segments, 0),
        }
        tokens = {name: tf.ensure_shape(value, shape) for name, value in tokens.items()}
        return tokens | {
            name: tf.ensure_shape(tf.gather(value, examples), [self._batch_size, *value.shape[1:]])
            for name, value in self._arrays.items()
        }


def memory_training_batches(
    features: Features,
    max_seq_length: int,
    batch_size: int,
    seed: int,
    first_step: int = 0,
    pad_to_max_length: bool = False,
    share: Share = WHOLE,
) -> tf.data.Dataset:
    """Endless batches; a resumed run sees the batches that an uninterrupted run would see.

    Starting at any step is as fast as starting at the first one.

    Args:
        features: of the examples.
        max_seq_length: length of the longest batches.
        batch_size: examples in a global batch.
        seed: of the orders (`TrainingOrder`).
        first_step: batches to skip.
        pad_to_max_length: whether every batch has that length; examples are not sorted then.
        share: rows to make of every batch, for which replicas.

    Returns:
        Dictionaries of `[batch_size, ...]` tensors; `input_ids`, `input_mask` and `segment_ids`
        are int32 `[batch_size, seq]`, or `[batch_size, choices, seq]`. With a `share`, batches of
        its replicas, one after the other; those of one global batch have the same length.
    """
    buckets = (max_seq_length,) if pad_to_max_length else length_buckets(max_seq_length)
    lengths = features.example_lengths
    order = TrainingOrder(lengths, batch_size, seed, 1 if pad_to_max_length else WINDOW)

    def of_epoch(epoch) -> tuple[np.ndarray, np.ndarray]:
        examples = order.of_epoch(int(epoch))
        return share.of(examples), share.repeated(_fitting(buckets, lengths[examples]))

    def slices(epoch):
        plan = tf.numpy_function(of_epoch, [epoch], [tf.int32, tf.int32], stateful=False)
        shapes = ([None, share.per_replica(batch_size)], [None])
        return tuple(tf.ensure_shape(part, to) for part, to in zip(plan, shapes, strict=True))

    epoch, skipped = order.locate(first_step)
    plans = tf.data.Dataset.counter(epoch).map(slices).prefetch(1)
    batches = plans.flat_map(lambda *plan: tf.data.Dataset.from_tensor_slices(plan))
    batches = batches.skip(skipped * share.replicas)
    gather = _Gather(features, buckets, share.per_replica(batch_size))
    batches = batches.map(gather, num_parallel_calls=tf.data.AUTOTUNE)
    # Strategies with several replicas use an endless data set as it is.
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return ending_at_once(batches.apply(endless).prefetch(4))


def memory_evaluation_batches(
    features: Features,
    max_seq_length: int,
    batch_size: int,
    pad_to_max_length: bool = False,
    share: Share = WHOLE,
) -> tf.data.Dataset:
    """All examples once, the longest first; arguments as in `memory_training_batches`.

    Returns:
        Batches as from `memory_training_batches`, with `example_number` `[batch_size]`, the index
        of each example in `features`, and `is_real_example`; what pads the last batch has the
        values -1 and 0 there.
    """
    buckets = (max_seq_length,) if pad_to_max_length else length_buckets(max_seq_length)
    lengths = features.example_lengths
    order = np.argsort(-lengths, kind="stable")
    padded = np.full(-(-len(order) // batch_size) * batch_size, -1, np.int32)
    padded[: len(order)] = order
    numbers = padded.reshape(-1, batch_size)
    gather = _Gather(features, buckets, share.per_replica(batch_size))
    fitting = _fitting(buckets, np.where(numbers >= 0, lengths[np.maximum(numbers, 0)], 0))

    def make(numbers, length):
        real = tf.cast(numbers >= 0, tf.int32)
        examples = gather(tf.maximum(numbers, 0), length)
        return examples | {"example_number": numbers, "is_real_example": real}

    plan = share.of(numbers), share.repeated(fitting)
    batches = tf.data.Dataset.from_tensor_slices(plan)
    return ending_at_once(batches.map(make, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4))


def _fitting(buckets: Sequence[int], lengths: np.ndarray) -> np.ndarray:
    """The smallest bucket that holds each batch; int32 `[batches]` of `[batches, examples]`."""
    longest = lengths.max(axis=1, initial=0).tolist()
    return np.array([buckets[bisect.bisect_left(buckets, length)] for length in longest], np.int32)
