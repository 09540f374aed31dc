"""Batches from TFRecords: order, resuming, and the last batch."""

import numpy as np
import pytest

from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.input.features import limited, pretraining_features, unmasked_features
from albert_tf.input.masking import Masking, Masks
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_reader import check_files
from data_prep.tfrecords import read_examples
from tests.support import references
from tests.support.tiny import LENGTH, VOCAB, batch, write_records

pytestmark = pytest.mark.integration


@pytest.fixture
def files(tmp_path):
    """Write three files of 7, 10 and 13 examples, numbered by their first tokens."""
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


MASKS = Masks(Masking(5), (2, 3), 4, np.arange(5, VOCAB, dtype=np.int32))


def dynamic(index, first_step=0, seed=3):
    stream = RecordStream(index, unmasked_features(LENGTH), 4, seed, MASKS, 10000)
    return dataset(stream, first_step).as_numpy_iterator()


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


@pytest.mark.parametrize(("name", "vocab_size"), [("own_text", 1500), ("en_30k", 30000)])
def test_reads_the_originals_files(name, vocab_size, shared):
    reference = references.records_reference(name, shared)
    path = str(reference.records)
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    check_files([path], limited(features, vocab_size, 2))
    expected = read_examples(path, features)
    index = RecordIndex.create([path])
    stream = RecordStream(index, features, reference.examples)
    (read,) = dataset(stream).as_numpy_iterator()
    for name in features:
        np.testing.assert_array_equal(read[name], expected[name])
