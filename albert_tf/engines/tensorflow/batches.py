"""Examples in memory as `tf.data` batches, in the order of `albert_tf.input.example_order`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.engines.tensorflow.pipelines import ending_at_once
from albert_tf.input.example_order import (
    WINDOW,
    TrainingOrder,
    batch_lengths,
    evaluation_order,
    fitting,
)
from albert_tf.input.examples import Features
from albert_tf.input.share import WHOLE, Share


class _Gather:
    """Makes batches of features inside `tf.data`, without Python.

    Args:
        features: of all examples.
        buckets: lengths of batches, ascending.
        batch_size: examples in the batch of a replica.
    """

    def __init__(self, features: Features, buckets: Sequence[int], batch_size: int):
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
    buckets = batch_lengths(features, max_seq_length, pad_to_max_length)
    lengths = features.example_lengths
    order = TrainingOrder(lengths, batch_size, seed, 1 if pad_to_max_length else WINDOW)

    def of_epoch(epoch) -> tuple[np.ndarray, np.ndarray]:
        examples = order.of_epoch(int(epoch))
        return share.of(examples), share.repeated(fitting(buckets, lengths[examples]))

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
    buckets = batch_lengths(features, max_seq_length, pad_to_max_length)
    lengths = features.example_lengths
    numbers = evaluation_order(lengths, batch_size)
    gather = _Gather(features, buckets, share.per_replica(batch_size))
    length_of = fitting(buckets, np.where(numbers >= 0, lengths[np.maximum(numbers, 0)], 0))

    def make(numbers, length):
        real = tf.cast(numbers >= 0, tf.int32)
        examples = gather(tf.maximum(numbers, 0), length)
        return examples | {"example_number": numbers, "is_real_example": real}

    plan = share.of(numbers), share.repeated(length_of)
    batches = tf.data.Dataset.from_tensor_slices(plan)
    return ending_at_once(batches.map(make, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4))
