"""TFRecords of pretraining examples as `tf.data` batches, by TensorFlow's operations.

A host of a TPU that is controlled by another machine runs its input pipeline without Python, so
these are the batches of `RecordBatches` again. Only what draws masks is shared.
"""

import tensorflow as tf

from albert_tf.engines.tensorflow.record_order import records_in_order, shuffled_records
from albert_tf.input import dynamic
from albert_tf.input.features import Feature
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import Shard


def record_batches(stream: RecordStream, shard: Shard, first_step: int = 0) -> tf.data.Dataset:
    """Return a shard of the batches of a stream, from a step on if the stream is endless.

    Only blocks of the shard are read.

    Returns:
        Dictionaries of `[rows, ...]` tensors, int32 or float32; if the stream ends, with
        `is_real_example` `[rows]`, which is 0 for what pads the last batch.
    """
    parse = _parser(stream)
    if stream.is_endless:
        records = shuffled_records(stream, shard, first_step)
        return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    rows = shard.rows(stream.batch_size)
    records = records_in_order(stream, shard)
    examples = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return examples.map(lambda batch: _padded(batch, rows.stop - rows.start)).prefetch(4)


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
    drawn = {name: (batch[name].dtype, batch[name].shape) for name in dynamic.DRAWN} | {
        "masked_lm_positions": (tf.int32, prediction_shape),
        "masked_lm_ids": (tf.int32, prediction_shape),
        "masked_lm_weights": (tf.float32, prediction_shape),
    }

    def draw(positions, *values):
        found = stream.draw_masks(dict(zip(stored, values, strict=True)), positions)
        return [found[name] for name in drawn]

    values = tf.numpy_function(
        draw,
        [positions, *batch.values()],
        [dtype for dtype, _ in drawn.values()],
        stateful=False,
    )
    return batch | {
        name: tf.ensure_shape(value, shape)
        for value, (name, (_, shape)) in zip(values, drawn.items(), strict=True)
    }
