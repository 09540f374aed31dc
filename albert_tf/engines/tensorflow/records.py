"""TFRecords of pretraining examples as `tf.data` batches, in an order determined by a seed."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.engines.tensorflow.pipelines import ending_at_once
from albert_tf.engines.tensorflow.record_order import records_in_order, shuffled_records
from albert_tf.input import dynamic
from albert_tf.input.features import Feature
from albert_tf.input.manifest import DynamicMasks
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.share import WHOLE, Share


def record_training_batches(
    index: RecordIndex,
    features: dict[str, Feature],
    batch_size: int,
    seed: int,
    shuffle_buffer_size: int = 10000,
    first_step: int = 0,
    masks: DynamicMasks | None = None,
    share: Share = WHOLE,
) -> tf.data.Dataset:
    """Endless shuffled batches; every epoch has every example once, in its own order.

    The order (see `albert_tf.input.record_order`) is a function of `index`, `batch_size`, `seed`
    and `shuffle_buffer_size`, so a run that resumes at `first_step` sees the batches that an
    uninterrupted run would see. Where the files contain no masks, masks (and swaps, see
    `DynamicMasks`) are a function of `seed` and of an example's position in that order: they change
    from epoch to epoch and are the same after a restart.

    Args:
        index: of TFRecord files, with an example at least.
        features: what an example contains.
        batch_size: examples in a batch.
        seed: seed of the order and of what is drawn.
        shuffle_buffer_size: size of a shuffle buffer that would shuffle as well.
        first_step: batches to skip, without reading their records.
        masks: what to draw; None where the files contain masks.
        share: rows to make of every batch, for which replicas; only their blocks are read.

    Returns:
        Dictionaries of `[batch_size, ...]` tensors, int32 or float32; with a `share`, batches of
        its replicas, one after the other.
    """
    numbered = shuffled_records(index, batch_size, seed, shuffle_buffer_size, first_step, share)
    parse = _parser(index, features, masks, seed, dynamic.TRAINING)
    examples = numbered.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ending_at_once(_per_replica_batches(examples.prefetch(4), share))


def record_evaluation_batches(
    index: RecordIndex,
    features: dict[str, Feature],
    batch_size: int,
    seed: int = 0,
    masks: DynamicMasks | None = None,
    share: Share = WHOLE,
) -> tf.data.Dataset:
    """All examples once, in order; the last batch is padded.

    Args:
        index, features, batch_size: as in `record_training_batches`.
        seed: seed of what is drawn, which is the same in every evaluation.
        masks: what to draw; None where the files contain masks.
        share: as in `record_training_batches`.

    Returns:
        Dictionaries as from `record_training_batches`, with `is_real_example` `[batch_size]`,
        which is 0 for what pads the last batch.
    """
    numbered = records_in_order(index, batch_size, share)
    parse = _parser(index, features, masks, seed, dynamic.EVALUATION)
    examples = numbered.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    examples = examples.map(lambda batch: fill_up(batch, share.count(batch_size)))
    return ending_at_once(_per_replica_batches(examples.prefetch(4), share))


def _per_replica_batches(batches: tf.data.Dataset, share: Share) -> tf.data.Dataset:
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


def fill_up(batch: dict[str, tf.Tensor], batch_size: int) -> dict[str, tf.Tensor]:
    """Pads with zero examples up to `batch_size`, and adds `is_real_example`."""
    count = tf.shape(next(iter(batch.values())))[0]

    def filled(tensor):
        padding = [[0, batch_size - count]] + [[0, 0]] * (tensor.shape.rank - 1)
        return tf.ensure_shape(tf.pad(tensor, padding), [batch_size, *tensor.shape[1:]])

    real = tf.ones([count], tf.int32)
    return {name: filled(value) for name, value in {**batch, "is_real_example": real}.items()}


def _parser(
    index: RecordIndex,
    features: dict[str, Feature],
    masks: DynamicMasks | None,
    seed: int,
    purpose: int,
):
    specification = {
        name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        for name, feature in features.items()
    }

    def parse(positions, records, numbers):
        stored = tf.io.parse_example(records, specification)
        with tf.control_dependencies([_check_values(index, features, stored, numbers)]):
            batch = {
                name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else tf.identity(value)
                for name, value in stored.items()
            }
        return batch if masks is None else _draw(batch, positions, masks, seed, purpose)

    return parse


def _check_values(
    index: RecordIndex,
    features: dict[str, Feature],
    stored: dict[str, tf.Tensor],
    numbers: tf.Tensor,
) -> tf.Operation:
    """An operation that fails, and names file, example and value, if one is out of its limits.

    Args:
        index: of the files.
        features: what an example contains.
        stored: the features of some examples, `[rows, ...]`, int64 and float32.
        numbers: int64 `[rows]`, numbers of the records in all files.
    """

    wrong: dict[str, tf.Tensor] = {}
    for name, values in stored.items():
        limit = features[name].limit
        if values.dtype.is_floating:
            wrong[name] = ~tf.math.is_finite(values)
        elif limit is not None:
            # As numbers without sign, negative ones are the largest.
            wrong[name] = tf.bitcast(values, tf.uint64) >= tf.constant(limit, tf.uint64)
    if not wrong:
        return tf.no_op()

    def refuse() -> tf.Operation:
        """Fails for the first wrong value of the first example that has one."""
        rules = []
        for name, places in wrong.items():
            limit = features[name].limit
            valid = "a finite number" if limit is None else f"0 to {limit - 1}"
            rules += [f": {name} must be {valid}, not "] * places.shape[1]
        places = tf.concat(list(wrong.values()), axis=1)
        values = tf.concat([tf.strings.as_string(stored[name]) for name in wrong], axis=1)
        row, column = tf.unstack(tf.where(places)[0])
        first_of_file = tf.constant(index.first_of_file)
        file = tf.searchsorted(first_of_file, numbers[row, None], side="right")[0] - 1
        message = [
            tf.gather(tf.constant(index.files), file),
            ": example ",
            tf.strings.as_string(numbers[row] - first_of_file[file]),
            tf.gather(tf.constant(rules), column),
            values[row, column],
        ]
        return tf.Assert(False, [tf.strings.join(message)])

    is_any_wrong = tf.reduce_any([tf.reduce_any(places) for places in wrong.values()])
    return tf.cond(is_any_wrong, refuse, tf.no_op)


def _draw(batch, numbers, masks: DynamicMasks, seed: int, purpose: int):
    """Draws what the files leave open for a batch of examples with these numbers."""
    stored = list(batch)
    prediction_shape = [*batch["input_ids"].shape[:1], masks.masking.max_predictions]
    drawn = {name: (batch[name].dtype, batch[name].shape) for name in dynamic.DRAWN} | {
        "masked_lm_positions": (tf.int32, prediction_shape),
        "masked_lm_ids": (tf.int32, prediction_shape),
        "masked_lm_weights": (tf.float32, prediction_shape),
    }

    def draw(numbers, *values):
        examples = dict(zip(stored, values, strict=True))
        found = dynamic.draw(examples, numbers, masks, seed, purpose)
        return [found[name] for name in drawn]

    values = tf.numpy_function(
        draw,
        [numbers, *batch.values()],
        [dtype for dtype, _ in drawn.values()],
        stateful=False,
    )
    return batch | {
        name: tf.ensure_shape(value, shape)
        for value, (name, (_, shape)) in zip(values, drawn.items(), strict=True)
    }
