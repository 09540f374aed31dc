"""Input pipelines: which rows of every global batch each one makes, and how replicas get them.

A pipeline feeds the replicas of one machine. It takes as many rows as they need, in the order of
the replicas, so all pipelines together make exactly the batch that one device would see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import tensorflow as tf


class Share(NamedTuple):
    """The part of every global batch that one of several input pipelines makes.

    Attributes:
        pipeline: number of the pipeline, from 0.
        pipelines: number of pipelines.
        replicas: number of replicas that each of them feeds, one after the other.
    """

    pipeline: int = 0
    pipelines: int = 1
    replicas: int = 1

    def rows(self, batch_size: int) -> slice:
        """The rows of a global batch; the batch divides by all replicas."""
        count = batch_size // self.pipelines
        return slice(self.pipeline * count, (self.pipeline + 1) * count)

    def count(self, batch_size: int) -> int:
        """Number of these rows."""
        return batch_size // self.pipelines


WHOLE = Share()

# Global batches, or a function that makes a pipeline's share of them, where examples are expensive.
Batches: TypeAlias = tf.data.Dataset | Callable[[Share], tf.data.Dataset]


def per_replica_batches(batches: tf.data.Dataset, share: Share) -> tf.data.Dataset:
    """Splits a pipeline's rows of every global batch into a batch for each of its replicas.

    Args:
        batches: the pipeline's rows, `[rows, ...]` with static `rows`.
        share: what the pipeline makes.

    Returns:
        `[rows / replicas, ...]`, `replicas` times as many; endless if `batches` is.
    """
    if share.replicas == 1:
        return batches

    def split_rows(value):
        # Lengths may differ from batch to batch and need not be static.
        of_row = tf.shape(value)[1:]
        parts = tf.reshape(value, tf.concat([[share.replicas, -1], of_row], axis=0))
        rows = value.shape[0] and value.shape[0] // share.replicas
        return tf.ensure_shape(parts, [share.replicas, rows, *value.shape[1:]])

    def split(batch):
        return tf.nest.map_structure(split_rows, batch)

    cardinality = batches.cardinality()
    parts = batches.map(split).unbatch()
    # If the data might end, every training step would have to check for it.
    if cardinality == tf.data.INFINITE_CARDINALITY:
        parts = parts.apply(tf.data.experimental.assert_cardinality(cardinality))
    return parts


def take_share(batches: tf.data.Dataset, share: Share) -> tf.data.Dataset:
    """A pipeline's share of global batches that every machine makes as a whole.

    This suits examples in memory; where an example is expensive, drop other rows earlier.

    Args:
        batches: global batches, `[batch, ...]` with static `batch`.
        share: what the pipeline makes.
    """

    def own_rows(batch):
        return tf.nest.map_structure(lambda value: value[share.rows(value.shape[0])], batch)

    if share.pipelines > 1:
        batches = batches.map(own_rows)
    return per_replica_batches(batches, share)


def distribute(strategy: tf.distribute.Strategy, batches: Batches):
    """Gives every replica its rows of every global batch, in the order of the replicas.

    Each machine makes its own rows and drops the others: before parsing them where `batches` is a
    function, after parsing them where it is a dataset.

    Returns:
        A distributed dataset.
    """

    def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
        share = Share(
            context.input_pipeline_id,
            context.num_input_pipelines,
            context.num_replicas_in_sync // context.num_input_pipelines,
        )
        if isinstance(batches, tf.data.Dataset):
            return take_share(batches, share)
        return batches(share)

    return strategy.distribute_datasets_from_function(pipeline)


def ending_at_once(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches from iterators that are destroyed without delay.

    With autotuning, TensorFlow waits for the tuning thread, which sleeps for ever longer: up to a
    minute at the end of every training. Without it, there are as many parallel calls as cores, 16
    at most.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)
