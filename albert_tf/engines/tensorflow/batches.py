"""Streams of batches as `tf.data` pipelines, and what errors of reading mean."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.engines.tensorflow.records import computed_by_python, record_batches
from albert_tf.errors import InputError, tensorflow_reason
from albert_tf.input.example_parser import ExampleParser
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_reader import read_block, read_records
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
    """Return the batches of an input pipeline, from a step on, as quickly as from the first one.

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

    # Up to `ENDLESS`, TensorFlow takes it for infinite; strategies use such a data set as it is.
    steps = tf.data.Dataset.range(first_step, len(source))
    batches = steps.map(
        lambda step: computed_by_python(make, [step], spec), num_parallel_calls=tf.data.AUTOTUNE
    )
    return batches.prefetch(4)


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


# What TensorFlow raises for a damaged TFRecord file, among other things.
_DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
)
# The messages of `records` and of TensorFlow's reader of records.
_WRONG_VALUE = re.compile(r"assertion failed: \[(\d+)")
_DAMAGED_RECORD = re.compile(r"(?:corrupted|truncated) record at (\d+)")


class BatchIterator(Iterator):
    """Batches of a distributed dataset; training steps take them inside of their graph.

    `stream` is of files that are read, None for examples in memory; `element_spec` has shapes
    and dtypes of the batches, by default those that the iterator names.
    """

    def __init__(
        self, distributed: Iterator, stream: RecordStream | None = None, element_spec: Any = None
    ):
        self.distributed, self.stream = distributed, stream
        self.element_spec = element_spec or getattr(distributed, "element_spec", None)

    def __next__(self) -> Any:
        try:
            return next(self.distributed)
        except _DATA_ERRORS as error:
            raise _reading_error(error, self.stream) from None


@contextlib.contextmanager
def errors_in_one_line(kind: str, stream: RecordStream | None = None) -> Iterator[None]:
    """Report errors of a step of some kind, whose own messages have many lines.

    `stream` is of the files that the step reads.

    Raises:
        InputError: If a batch cannot be read, the memory does not suffice, or the step fails.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(
            f"out of memory in {kind} ({tensorflow_reason(error)}); a smaller batch needs less "
            "memory, and in pretraining, so do `micro_batch_size` and `remat`"
        ) from None
    except (*_DATA_ERRORS, tf.errors.UnimplementedError) as error:
        # Reading is part of the graph of a training step.
        if "IteratorGetNext" in str(error):
            raise _reading_error(error, stream) from None
        raise InputError(f"the {kind} step failed: {tensorflow_reason(error)}") from None


def _reading_error(error: tf.errors.OpError, stream: RecordStream | None) -> InputError:
    """Return what to say of an error while a batch was read: what Python's reader says of it."""
    reason = tensorflow_reason(error)
    try:
        if stream and (wrong := _WRONG_VALUE.search(reason)):
            number = int(wrong[1])
            records = read_records(stream.index, np.array([number]))
            ExampleParser(stream.features)(records, lambda _: stream.index.name_of(number))
        if stream and (damaged := _DAMAGED_RECORD.search(reason)):
            position, starts = int(damaged[1]), stream.index.offset
            is_inside = (starts <= position) & (position < starts + stream.index.bytes)
            for block in np.flatnonzero(is_inside).tolist():
                read_block(stream.index, block)
    except InputError as found:
        return found  # names the record
    except OSError:
        pass
    return InputError(f"the TFRecords cannot be read: {reason}")
