"""Rows are their examples: taken apart, put together, and drawn for as if they were alone."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input.features import limited, pretraining_features, row_features
from albert_tf.input.masking import Masking, Masks, derive_seeds, draw_masks
from albert_tf.input.record_batches import _SWAPS, EVALUATION, TRAINING, RecordStream, draw
from albert_tf.input.record_batches import swap_segments as swap
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_reader import check_files
from albert_tf.input.rows import TOKEN_FEATURES, Places, unpacked
from albert_tf.input.streams import Shard
from data_prep.tfrecords import write_records
from tests.support.batches import assert_same, assert_tensorflow_has
from tests.support.rows import SEQUENCE, rows_of_examples
from tests.support.tiny import VOCAB

FEATURES = row_features(SEQUENCE)


def masks(**settings) -> Masks:
    return Masks(Masking(**settings), (2, 3), 4, np.arange(5, VOCAB, dtype=np.int32), True)


def test_rows_are_put_together_from_what_they_are_taken_apart_into():
    rows = rows_of_examples(40)
    assert {name: value.shape[1:] for name, value in rows.items()} == {
        name: feature.shape for name, feature in FEATURES.items()
    }
    places, examples = Places.find(rows["example_ids"]), unpacked(rows)
    assert_same(places.pack(examples, pad_id=0), rows)
    # By a reference.
    numbers = iter(range(len(places.row)))
    for row, ids in enumerate(rows["example_ids"]):
        assert rows["next_sentence_weights"][row].sum() == ids.max() == row % 4 + 1
        for number in range(1, ids.max() + 1):
            example, tokens = next(numbers), np.flatnonzero(ids == number)
            assert rows["cls_positions"][row, number - 1] == tokens[0]
            for name in TOKEN_FEATURES:
                assert (examples[name][example, : len(tokens)] == rows[name][row, tokens]).all()
            assert examples["input_mask"][example].sum() == len(tokens)
    assert next(numbers, None) is None


@pytest.mark.parametrize("purpose", [TRAINING, EVALUATION])
@pytest.mark.parametrize("do_permutation", [False, True])
def test_what_is_drawn_for_an_example_is_what_is_drawn_for_it_alone(purpose, do_permutation):
    rows, visits = rows_of_examples(30), np.arange(100, 130)
    wanted = masks(max_predictions=20, do_permutation=do_permutation)
    found = unpacked(rows | draw(rows, visits, wanted, 7, purpose))
    examples = unpacked(rows)
    lengths = examples["input_mask"].sum(1).astype(np.int32)
    numbers = np.concatenate([np.arange(1, row % 4 + 2) for row in range(30)])
    visits = np.repeat(visits, np.arange(30) % 4 + 1)
    swapped = derive_seeds(7, purpose + _SWAPS, visits, numbers) >> np.uint64(63) > 0
    swap(*(examples[name] for name in TOKEN_FEATURES), Places.alone(lengths), swapped)
    seeds = derive_seeds(7, purpose, visits, numbers)
    alone = draw_masks(examples["input_ids"], lengths, examples["token_boundary"], seeds, wanted)
    examples |= alone.features() | {"next_sentence_labels": swapped[:, None].astype(np.int32)}
    assert 0.3 < swapped.mean() < 0.7
    assert_same(found, examples)


@pytest.mark.parametrize(("predictions", "least"), [(1, 0), (3, 0), (6, 1), (9, 1)])
def test_predictions_that_do_not_suffice_are_shared_by_length(predictions, least):
    rows = rows_of_examples(40)
    wanted = masks(max_predictions=predictions)
    drawn = rows | draw(rows, np.arange(40), wanted, 0, TRAINING)
    assert drawn["masked_lm_weights"].shape == (40, predictions)
    examples = unpacked(drawn)
    masked, lengths = examples["masked_lm_weights"].sum(1), examples["input_mask"].sum(1)
    assert masked.min() == least
    if predictions < round(0.15 * SEQUENCE):
        assert (masked <= np.maximum(lengths * predictions / SEQUENCE, 1)).all()


@pytest.mark.integration
def test_batches_of_rows_are_those_of_tensorflow(tmp_path):
    path = str(tmp_path / "rows.tfrecord")
    with open(path, "wb") as file:
        write_records(file, rows_of_examples(150))
    features, wanted = limited(FEATURES, VOCAB, 2), masks(max_predictions=9)
    for buffer in (50, None):
        stream = RecordStream(RecordIndex.create([path]), features, 20, 3, wanted, buffer)
        assert_tensorflow_has(stream, Shard(1, 2), 2, 0, 8)
    with pytest.raises(InputError, match="made with --pack_rows need their manifest next to them"):
        check_files([path], pretraining_features(SEQUENCE, 9))
