"""Batches of examples that fit into memory."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.input.pretraining import fill_up


def training_batches(
    arrays: dict[str, np.ndarray], batch_size: int, seed: int, first_step: int = 0
) -> tf.data.Dataset:
    """Endless batches, every epoch in another order that `seed` fixes; `first_step` are left out.

    Args:
        arrays: `[examples, ...]` by feature name.
        batch_size: examples in a batch; a batch may span two epochs.
        seed: seed of the orders.
        first_step: batches to leave out, for a run that goes on.
    """
    count = len(next(iter(arrays.values())))
    examples = tf.data.Dataset.from_tensor_slices(arrays)
    examples = examples.shuffle(count, seed=seed, reshuffle_each_iteration=True).repeat()
    examples = examples.skip(first_step * batch_size)
    return examples.batch(batch_size, drop_remainder=True).prefetch(4)


def evaluation_batches(arrays: dict[str, np.ndarray], batch_size: int) -> tf.data.Dataset:
    """All examples once, in order; the last batch is filled up (see `fill_up`)."""
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
    return batches.map(lambda batch: fill_up(batch, batch_size)).prefetch(4)
