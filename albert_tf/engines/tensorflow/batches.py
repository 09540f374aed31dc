"""Streams of batches as `tf.data` pipelines."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.engines.tensorflow.records import record_batches
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import WHOLE, BatchStream, Shard


# AutoGraph takes a second, and no function of a pipeline has anything for it to convert.
@tf.autograph.experimental.do_not_convert
def dataset(
    stream: BatchStream,
    first_step: int = 0,
    shard: Shard = WHOLE,
    replicas: int = 1,
    runs_python: bool = True,
) -> tf.data.Dataset:
    """Return the batches of an input pipeline.

    Starting at any step is as fast as starting at the first one.

    Args:
        stream: of TFRecord files, which are read by TensorFlow's operations, or any other whose
            sources have `element_spec`.
        first_step: batches to skip.
        shard: the pipeline.
        replicas: number of replicas that the pipeline feeds, one after the other.
        runs_python: whether this process runs the pipeline. If not, batches other than those of
            TFRecord files must end; they are made here and copied to where it runs.

    Returns:
        Dictionaries of tensors, `[batch_size / pipelines / replicas, ...]`.
    """
    if isinstance(stream, RecordStream):
        batches = record_batches(stream, shard, first_step)
    else:
        source = stream.batches(shard)
        batches = _computed_here(source, first_step) if runs_python else _copied(source)
    return ending_at_once(_per_replica(batches, replicas))


def ending_at_once(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Return the same batches, from iterators that are destroyed without delay.

    With autotuning, TensorFlow waits for the tuning thread, which sleeps for ever longer: up to a
    minute at the end of every training. Without it, there are as many parallel calls as cores, 16
    at most.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def _computed_here(source, first_step: int) -> tf.data.Dataset:
    """Return the batches from a step on; Python makes each of them when it is needed."""
    spec = source.element_spec

    def make(step: np.int64) -> list[np.ndarray]:
        batch = source[int(step)]
        return [batch[name] for name in spec]

    def load(step: tf.Tensor) -> dict[str, tf.Tensor]:
        dtypes = [dtype for _, dtype in spec.values()]
        arrays = tf.numpy_function(make, [step], dtypes, stateful=False)
        return {
            name: tf.ensure_shape(array, shape)
            for array, (name, (shape, _)) in zip(arrays, spec.items(), strict=True)
        }

    # Up to `ENDLESS`, TensorFlow takes it for infinite; strategies use such a data set as it is.
    steps = tf.data.Dataset.range(first_step, len(source))
    return steps.map(load, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)


def _copied(source) -> tf.data.Dataset:
    """Return all batches, made now; all must have the same shape."""
    batches = [source[step] for step in range(len(source))]
    return tf.data.Dataset.from_tensor_slices(
        {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
    )


def _per_replica(batches: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Split every batch into `replicas` batches of consecutive rows."""
    if replicas == 1:
        return batches

    def split_rows(value: tf.Tensor) -> tf.Tensor:
        # Lengths may differ from batch to batch and need not be static.
        shape = tf.concat([[replicas, -1], tf.shape(value)[1:]], axis=0)
        rows = value.shape[0] // replicas
        return tf.ensure_shape(tf.reshape(value, shape), [replicas, rows, *value.shape[1:]])

    cardinality = batches.cardinality()
    parts = batches.map(lambda batch: tf.nest.map_structure(split_rows, batch)).unbatch()
    # If the data might end, every training step would have to check for it.
    if cardinality == tf.data.INFINITE_CARDINALITY:
        parts = parts.apply(tf.data.experimental.assert_cardinality(cardinality))
    return parts
