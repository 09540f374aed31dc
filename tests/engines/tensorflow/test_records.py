"""Batches from TFRecords: order, resuming, and the last batch."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.engines.tensorflow.records import record_evaluation_batches, record_training_batches
from albert_tf.input.features import limited, pretraining_features, unmasked_features
from albert_tf.input.manifest import DynamicMasks
from albert_tf.input.masking import Masking
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_reader import check_files
from data_prep.tfrecords import read_examples
from tests.support import references
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch, write_records

pytestmark = pytest.mark.integration

FEATURES = pretraining_features(LENGTH, PREDICTIONS)


@pytest.fixture
def files(tmp_path):
    """Three files of 7, 10 and 13 examples; the first token of each example is its number."""
    paths, number = [], 0
    for count in (7, 10, 13):
        examples = batch(count, seed=count)
        examples["input_ids"][:, 0] = np.arange(number, number + count)
        paths.append(str(tmp_path / f"{count}.tfrecord"))
        write_records(paths[-1], examples)
        number += count
    return paths


@pytest.fixture
def index(files):
    return RecordIndex.create(files)


def numbers(batches) -> list[list[int]]:
    return [b["input_ids"][:, 0].tolist() for b in batches.as_numpy_iterator()]


@pytest.mark.parametrize("shuffle_buffer_size", [1, 8, 100])
def test_every_epoch_holds_every_example_once_in_its_own_order(index, shuffle_buffer_size):
    batches = record_training_batches(index, FEATURES, 5, 1, shuffle_buffer_size)
    read = sum(numbers(batches.take(12)), [])
    assert sorted(read[:30]) == sorted(read[30:]) == list(range(30))
    assert read[:30] != read[30:]
    other = record_training_batches(index, FEATURES, 5, 2, shuffle_buffer_size)
    assert sum(numbers(other.take(6)), []) != read[:30]


MASKS = DynamicMasks(Masking(5), (2, 3), 4, np.arange(5, VOCAB, dtype=np.int32))


def dynamic(index, first_step=0, seed=3):
    features = unmasked_features(LENGTH)
    batches = record_training_batches(index, features, 4, seed, first_step=first_step, masks=MASKS)
    return batches.as_numpy_iterator()


def test_dynamic_masks_are_others_in_every_epoch_and_the_same_after_a_restart(index):
    whole = [next(batches) for batches in [dynamic(index)] for _ in range(20)]
    rest = dynamic(index, first_step=9)
    for expected in whole[9:]:
        found = next(rest)
        assert set(found) == set(pretraining_features(LENGTH, 5))
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == values.dtype
    # Unmasked, the examples are those of the files; 30 examples are 7.5 batches.
    masks: dict[bytes, set] = {}
    for b in whole:
        ids = b["input_ids"].copy()
        for row, count in enumerate(b["masked_lm_weights"].astype(bool).sum(1)):
            positions = b["masked_lm_positions"][row, :count]
            ids[row, positions] = b["masked_lm_ids"][row, :count]
            masks.setdefault(ids[row].tobytes(), set()).add(tuple(positions))
    assert len(masks) == 30
    assert np.mean([len(positions) > 1 for positions in masks.values()]) > 0.8
    other = next(dynamic(index, seed=4))
    assert (other["masked_lm_positions"] != whole[0]["masked_lm_positions"]).any()


def test_dynamic_masks_of_an_evaluation_are_always_the_same(index):
    def read(seed):
        features = unmasked_features(LENGTH)
        return list(record_evaluation_batches(index, features, 8, seed, MASKS).as_numpy_iterator())

    for one, other in zip(read(1), read(1), strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(other[name], values)
    last = read(1)[-1]
    assert last["input_ids"].shape == (8, LENGTH)
    assert last["masked_lm_weights"].shape == (8, 5)
    assert not last["masked_lm_weights"][last["is_real_example"] == 0].any()
    assert (read(2)[0]["masked_lm_positions"] != read(1)[0]["masked_lm_positions"]).any()


def test_evaluation_reads_everything_once_in_order(index):
    batches = list(record_evaluation_batches(index, FEATURES, 8).as_numpy_iterator())
    assert [len(b["input_ids"]) for b in batches] == [8, 8, 8, 8]
    real = np.concatenate([b["is_real_example"] for b in batches])
    ids = np.concatenate([b["input_ids"][:, 0] for b in batches])
    assert ids[real == 1].tolist() == list(range(30))
    assert real.sum() == 30
    assert {b["masked_lm_weights"].dtype for b in batches} == {np.dtype("float32")}
    assert {b["input_ids"].dtype for b in batches} == {np.dtype("int32")}


def test_what_was_written_is_read(tmp_path):
    examples = batch(6)
    path = str(tmp_path / "x.tfrecord")
    write_records(path, examples)
    index = RecordIndex.create([path])
    (read,) = record_evaluation_batches(index, FEATURES, 6).as_numpy_iterator()
    for name, values in examples.items():
        np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize(("name", "vocab_size"), [("own_text", 1500), ("en_30k", 30000)])
def test_reads_the_originals_files(name, vocab_size, shared):
    reference = references.records_reference(name, shared)
    path = str(reference.records)
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    check_files([path], limited(features, vocab_size, 2))
    expected = read_examples(path, features)
    index = RecordIndex.create([path])
    (read,) = record_evaluation_batches(index, features, reference.examples).as_numpy_iterator()
    for name in features:
        np.testing.assert_array_equal(read[name], expected[name])


def test_iterators_go_at_once(index):
    # What waits is a thread that only iterators of a certain age have to wait for.
    for batches in (
        record_training_batches(index, FEATURES, 4, 1),
        record_evaluation_batches(index, FEATURES, 4),
    ):
        assert batches.options().autotune.enabled is False
