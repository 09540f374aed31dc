"""TFRecords of pretraining examples as `tf.data` batches, by TensorFlow's operations.

A host of a TPU that is controlled by another machine runs its input pipeline without Python, so
these are the batches of `RecordBatches` again, in the order of `albert_tf.input.record_order`. Only
what draws masks is shared.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.input.features import Feature
from albert_tf.input.masking import derive_seeds
from albert_tf.input.record_batches import DRAWN, RecordStream
from albert_tf.input.record_index import BLOCK, RecordIndex
from albert_tf.input.record_order import BLOCK_SEED, POSITION_SEED, lane_rows, window_size
from albert_tf.input.streams import Shard

# Blocks that are read at the same time.
_READS = 16


def record_batches(stream: RecordStream, shard: Shard, first_step: int = 0) -> tf.data.Dataset:
    """Return a shard of the batches of a stream, from a step on if the stream is endless.

    Only blocks of the shard are read.

    Returns:
        Dictionaries of `[rows, ...]` tensors, int32 or float32; if the stream ends, with
        `is_real_example` `[rows]`, which is 0 for what pads the last batch.
    """
    parse, parts = _parser(stream), stream.parts
    if stream.is_endless:
        records = shuffled_records(stream, shard, first_step // parts)
        if parts > 1:

            def divide(*values):
                return tuple(tf.transpose(tf.reshape(each, [-1, parts])) for each in values)

            records = _without_end(records.map(divide).unbatch().skip(first_step % parts))
        return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    rows = shard.rows(stream.batch_size)
    records = records_in_order(stream, shard)
    examples = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return examples.map(lambda batch: _padded(batch, rows.stop - rows.start)).prefetch(4)


def _without_end(batches: tf.data.Dataset) -> tf.data.Dataset:
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def _padded(batch: dict[str, tf.Tensor], batch_size: int) -> dict[str, tf.Tensor]:
    """Pad with zero examples up to `batch_size`, and add `is_real_example`."""
    count = tf.shape(next(iter(batch.values())))[0]

    def padded(tensor):
        padding = [[0, batch_size - count]] + [[0, 0]] * (tensor.shape.rank - 1)
        return tf.ensure_shape(tf.pad(tensor, padding), [batch_size, *tensor.shape[1:]])

    real = tf.ones([count], tf.int32)
    return {name: padded(value) for name, value in {**batch, "is_real_example": real}.items()}


def _parser(stream: RecordStream):
    specification = {
        name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        for name, feature in stream.features.items()
    }

    def parse(positions, records, numbers):
        stored = tf.io.parse_example(records, specification)
        check = _check_values(stream.features, stored, numbers)
        with tf.control_dependencies([check]):
            batch = {
                name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else tf.identity(value)
                for name, value in stored.items()
            }
        return batch if stream.masks is None else _draw(batch, positions, stream)

    return parse


def _check_values(
    features: dict[str, Feature], stored: dict[str, tf.Tensor], numbers: tf.Tensor
) -> tf.Operation:
    """Return an operation that fails, with the numbers of the records, if values are out of limits.

    `stored` has the features of some examples, `[rows, ...]`, int64 and float32; `numbers` those of
    the records in all files, int64 `[rows]`.
    """
    wrong = []
    for name, values in stored.items():
        limit = features[name].limit
        if values.dtype.is_floating:
            wrong.append(~tf.math.is_finite(values))
        elif limit is not None:
            # As numbers without sign, negative ones are the largest.
            wrong.append(tf.bitcast(values, tf.uint64) >= tf.constant(limit, tf.uint64))
    if not wrong:
        return tf.no_op()
    is_wrong = tf.reduce_any(tf.concat(wrong, axis=1), axis=1)
    return tf.Assert(~tf.reduce_any(is_wrong), [tf.boolean_mask(numbers, is_wrong)])


def _draw(batch: dict[str, tf.Tensor], positions: tf.Tensor, stream: RecordStream):
    stored, masks = list(batch), stream.masks
    assert masks is not None
    prediction_shape = [*batch["input_ids"].shape[:1], masks.masking.max_predictions]
    drawn = {name: (batch[name].shape, batch[name].dtype) for name in DRAWN} | {
        "masked_lm_positions": (prediction_shape, tf.int32),
        "masked_lm_ids": (prediction_shape, tf.int32),
        "masked_lm_weights": (prediction_shape, tf.float32),
    }

    def draw(positions, *values):
        found = stream.draw_masks(dict(zip(stored, values, strict=True)), positions)
        return [found[name] for name in drawn]

    return batch | computed_by_python(draw, [positions, *batch.values()], drawn)


def computed_by_python(
    function: Callable, inputs: list[tf.Tensor], results: Mapping[str, tuple[Any, Any]]
) -> dict[str, tf.Tensor]:
    """Return what a function of arrays returns in a list; `results` are name -> shape and dtype."""
    dtypes = [dtype for _, dtype in results.values()]
    values = tf.numpy_function(function, inputs, dtypes, stateful=False)
    return {
        name: tf.ensure_shape(value, shape)
        for value, (name, (shape, _)) in zip(values, results.items(), strict=True)
    }


@tf.autograph.experimental.do_not_convert
def shuffled_records(stream: RecordStream, shard: Shard, first_step: int = 0) -> tf.data.Dataset:
    """Return the unparsed records of an endless stream in training order, from a step on.

    Only the rows of every batch that belong to the shard are read.

    Returns:
        Triples `[rows]`: positions, int64; the records at these positions; and their numbers in
        all files, int64.
    """
    assert stream.shuffle_buffer_size is not None
    batch_size, rows = stream.batch_size, shard.rows(stream.batch_size)
    size, examples = window_size(batch_size, stream.shuffle_buffer_size), stream.index.examples
    block_seed = derive_seeds(stream.seed, BLOCK_SEED)
    position_seed = derive_seeds(stream.seed, POSITION_SEED)
    first = first_step * batch_size
    in_order = _Sequence.in_order(stream.index)

    def own(low, high):
        """Return the positions in `rows` from `low` to `high`, none before `first`, ascending.

        Also return where the record of each is among those from `low` to `high` of the sequence;
        both are int64 `[positions]`.
        """
        positions = tf.range(low, high)
        row = positions % batch_size
        random = _right_shift(_derive_seeds(position_seed, positions), 9)
        # The rank of a position is the number of those before it by (lane, random bits).
        keys = row // lane_rows(batch_size) * 2**55 + tf.cast(random, tf.int64)
        ranks = tf.argsort(tf.argsort(keys, stable=True), stable=True)
        is_own = (row >= rows.start) & (row < rows.stop) & (positions >= first)
        return positions[is_own], tf.cast(ranks, tf.int64)[is_own]

    def read_epoch(epoch):
        begin, end = epoch * examples, (epoch + 1) * examples
        sequence = in_order.shuffled(_derive_seeds(block_seed, epoch))

        def read_window(window):
            low, high = tf.maximum(window * size, begin), tf.minimum((window + 1) * size, end)
            positions, ranks = own(low, high)
            # Consecutive records, of which all or nearly all are its own.
            lowest, end_rank = _bounds(ranks)
            records = sequence.read(low - begin + lowest, low - begin + end_rank)
            at = ranks - lowest
            return records.map(
                lambda read, numbers: (positions, tf.gather(read, at), tf.gather(numbers, at))
            )

        windows = tf.data.Dataset.range(tf.maximum(begin, first) // size, -(-end // size))
        return windows.flat_map(read_window)

    epochs = tf.data.Dataset.counter(first // examples)
    records = epochs.flat_map(read_epoch).prefetch(1)
    records = records.rebatch(rows.stop - rows.start, drop_remainder=True)
    return _without_end(records)


@tf.autograph.experimental.do_not_convert
def records_in_order(stream: RecordStream, shard: Shard) -> tf.data.Dataset:
    """Return the unparsed records of a stream in the order of the files, once.

    They are as of `shuffled_records`; the last batch of a shard may have fewer rows, or none.
    """
    batch_size, rows = stream.batch_size, shard.rows(stream.batch_size)
    sequence, examples = _Sequence.in_order(stream.index), stream.index.examples

    def read_batch(batch):
        begin = tf.minimum(batch * batch_size + rows.start, examples)
        end = tf.minimum(batch * batch_size + rows.stop, examples)
        # A batch of no record must not be left out.
        begin_read = tf.minimum(begin, examples - 1)
        end_read = tf.maximum(end, begin_read + 1)
        records = sequence.read(begin_read, end_read)
        count = end - begin
        return records.map(
            lambda read, numbers: (tf.range(begin, end), read[:count], numbers[:count])
        )

    batches = tf.data.Dataset.range(-(-examples // batch_size))
    return batches.flat_map(read_batch)


class _Sequence(NamedTuple):
    """The records of all files, in some order of their blocks.

    Attributes:
        file: string `[blocks]`.
        offset, bytes, records, first: int64 `[blocks]`, as in `RecordIndex`.
        ends: int64 `[blocks]`, number of records to the end of each block.
    """

    file: tf.Tensor
    offset: tf.Tensor
    bytes: tf.Tensor
    records: tf.Tensor
    first: tf.Tensor
    ends: tf.Tensor

    @classmethod
    def in_order(cls, index: RecordIndex) -> "_Sequence":
        columns = (index.offset, index.bytes, index.records, index.first, np.cumsum(index.records))
        return cls(tf.gather(tf.constant(index.files), index.file), *map(tf.constant, columns))

    def shuffled(self, seed: tf.Tensor) -> "_Sequence":
        blocks = tf.range(tf.size(self.ends, tf.int64))
        keys = _right_shift(_derive_seeds(seed, blocks), 1)
        order = tf.argsort(tf.cast(keys, tf.int64), stable=True)
        file, offset, size, records, first, _ = (tf.gather(values, order) for values in self)
        return _Sequence(file, offset, size, records, first, tf.cumsum(records))

    def read(self, begin: tf.Tensor, end: tf.Tensor) -> tf.data.Dataset:
        """Return the records from `begin` to `end`, and their numbers in all files, as one pair.

        They are string and int64, `[end - begin]`; there is no element if there are none.
        """
        first = tf.searchsorted(self.ends, begin[None], side="right")[0]
        last = tf.searchsorted(self.ends, end[None], side="left")[0]
        last = tf.where(begin < end, last + 1, first)
        file, offset, size, records, numbers, ends = (values[first:last] for values in self)
        begins = ends - records
        skipped = tf.maximum(begin - begins, 0)
        taken = tf.minimum(end, ends) - begins - skipped
        blocks = tf.data.Dataset.from_tensor_slices((file, offset, size, numbers, skipped, taken))
        blocks = blocks.map(_read_block, num_parallel_calls=_READS, deterministic=True)
        return blocks.rebatch(tf.maximum(end - begin, 1))


def _read_block(file, offset, size, first, skipped, taken) -> tuple[tf.Tensor, tf.Tensor]:
    # `tf.data.TFRecordDataset` has no argument for the position to start at, its operation has.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=file, compression_type="", buffer_size=size, byte_offsets=offset
    )
    records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    numbers = tf.range(first + skipped, first + skipped + taken)
    return records.skip(skipped).take(taken).batch(BLOCK).get_single_element(), numbers


def _bounds(ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lowest rank, and the one after the highest; 0 and 0 if there is none."""
    last = tf.reduce_max(tf.concat([ranks, [-1]], axis=0))
    return tf.reduce_min(tf.concat([ranks, [last + 1]], axis=0)), last + 1


def _derive_seeds(seed, numbers: tf.Tensor) -> tf.Tensor:
    """`albert_tf.input.masking.derive_seeds` with one number, as TensorFlow operations."""
    bits = tf.constant(seed) if isinstance(seed, np.ndarray | np.generic) else seed
    bits += (tf.cast(numbers, tf.uint64) + _uint64(1)) * _uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ _right_shift(bits, 30)) * _uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ _right_shift(bits, 27)) * _uint64(0x94D049BB133111EB)
    return bits ^ _right_shift(bits, 31)


def _right_shift(bits: tf.Tensor, count: int) -> tf.Tensor:
    return tf.bitwise.right_shift(bits, _uint64(count))


def _uint64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)
