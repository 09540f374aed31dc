"""Batches without TensorFlow: those of the TensorFlow engine, for any shard, step and thread.

And what training draws at every visit: the order of segments, and masks.
"""

import gc
import threading

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from albert_tf.errors import InputError
from albert_tf.input import record_reader
from albert_tf.input.features import limited, unmasked_features
from albert_tf.input.masking import Masking, Masks
from albert_tf.input.record_batches import EVALUATION, TRAINING, RecordStream, draw
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.streams import Shard
from data_prep.tfrecords import write_records as write
from tests.conftest import slow
from tests.support.batches import (
    EXAMPLES,
    PIPELINES,
    STATIC,
    assert_same,
    assert_tensorflow_has,
    assert_threads_share,
    write_files,
)
from tests.support.texts import unmasked
from tests.support.tiny import LENGTH, VOCAB, batch

MASKS = Masks(Masking(5), (2, 3), 4, np.arange(5, VOCAB, dtype=np.int32), True)
AS_WRITTEN, MASKED_HERE = (STATIC, None), (unmasked_features(LENGTH), MASKS)
FORMS = pytest.mark.parametrize("form", [AS_WRITTEN, MASKED_HERE], ids=["static", "dynamic"])


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Of files of uneven length; the first, the last and one between them are empty."""
    return RecordIndex.create(write_files(tmp_path_factory.mktemp("records")))


@pytest.mark.integration
# Windows of some batches, of one, and of several epochs; batches that span epochs, and an odd one.
@pytest.mark.parametrize(
    ("batch_size", "shuffle_buffer_size", "form", "parts"),
    [
        (40, 7, MASKED_HERE, 5),
        *slow((20, 7, AS_WRITTEN, 1), (8, 60, AS_WRITTEN, 1), (60, 10000, MASKED_HERE, 1)),
    ],
)
def test_training_batches_are_those_of_tensorflow(
    index, batch_size, shuffle_buffer_size, form, parts
):
    count = 2 * EXAMPLES * parts // batch_size + 4
    features, masks = form
    stream = RecordStream(index, features, batch_size, 3, masks, shuffle_buffer_size, parts)
    for (shard, replicas), first in [(PIPELINES[0], 0), *((each, count - 3) for each in PIPELINES)]:
        assert_tensorflow_has(stream, shard, replicas, first, count)


def test_an_evaluation_draws_other_masks_than_training(index):
    features, positions = unmasked_features(LENGTH), np.arange(8)
    examples = RecordStream(index, features, 8).batches()[0]
    for buffer, purpose in ((None, EVALUATION), (4, TRAINING)):
        stream = RecordStream(index, features, 8, 3, MASKS, buffer)
        expected = draw(examples, positions, MASKS, 3, purpose)
        assert_same(stream.draw_masks(examples, positions), expected)


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """Return the numbers of the blocks that are read, in their order."""
    read, read_block = [], record_reader.read_block
    wait_for_threads()  # which other tests have left

    def counted(index, block):
        read.append(block)
        return read_block(index, block)

    monkeypatch.setattr(record_reader, "read_block", counted)
    return read


def test_evaluation_reads_blocks_once_but_between_windows(index, read):
    batches = RecordStream(index, STATIC, 8).batches()
    for step in range(len(batches)):
        batches[step]
    assert set(read) == set(range(len(index.bytes)))
    windows = -(-len(batches) // batches._windows.batches)
    assert len(read) < len(index.bytes) + windows


@pytest.mark.integration
@FORMS
def test_evaluation_batches_are_those_of_tensorflow(index, form):
    features, masks = form
    stream = RecordStream(index, features, 60, 3, masks)
    for shard, replicas in PIPELINES:
        batches = stream.batches(shard)
        assert_tensorflow_has(stream, shard, replicas, 0, len(batches))
        with pytest.raises(IndexError):
            batches[len(batches)]
        assert sum(1 for _ in batches) == len(batches)  # what iteration relies on


@pytest.mark.integration
@FORMS
@pytest.mark.parametrize("shuffle_buffer_size", [4, 60])
def test_threads_get_what_one_thread_gets(index, form, shuffle_buffer_size):
    features, masks = form
    stream = RecordStream(index, features, 8, 3, masks, shuffle_buffer_size)
    assert_threads_share(stream, Shard())


def test_records_are_read_once_per_window_and_by_their_own_pipeline_only(index, read):
    batches = RecordStream(index, STATIC, 8, 3, shuffle_buffer_size=EXAMPLES // 2).batches()
    for step in range(5):
        batches[step]
    del batches
    wait_for_threads()
    # The first window, and the one that is read ahead, which belongs to two epochs.
    assert len(read) <= 2 * len(index.records)


def wait_for_threads() -> None:
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith(("read-", "grain-")):
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.integration
def test_a_pipeline_reads_its_own_part_only(tmp_path):
    """Everything but its half, and two blocks at its ends, may be damaged."""
    examples, path = 64 * 32, tmp_path / "whole.tfrecord"
    with open(path, "wb") as file:
        write(file, batch(examples))
    index = RecordIndex.create([str(path)])

    stream = RecordStream(index, STATIC, 256, 3, shuffle_buffer_size=examples // 2)

    def read(pipeline):
        batches = stream.batches(Shard(pipeline, 2))
        return [batches[step] for step in range(examples // 256)]

    window = stream.batches(Shard(0, 2))._windows.get(0)
    numbers = np.concatenate([numbers for numbers, _ in window])
    whole, blocks = read(0), set((numbers // 64).tolist())
    wait_for_threads()
    assert len(blocks) <= 17
    content = bytearray(path.read_bytes())
    for block in set(range(32)) - blocks:
        begin, size = index.offset[block], index.bytes[block]
        content[begin : begin + size] = b"\xff" * size
    path.write_bytes(content)
    for found, expected in zip(read(0), whole, strict=True):
        assert_same(found, expected)
    with pytest.raises(InputError, match=r"whole.tfrecord: example \d+ is damaged"):
        read(1)


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("input_ids", 75, "0 to 59"),
        ("input_ids", -1, "0 to 59"),
        ("input_ids", 2**32 + 1, "0 to 59"),  # 1 as an int32
        ("segment_ids", 2, "0 to 1"),
        ("input_mask", -1, "0 to 1"),
        ("token_boundary", 2, "0 to 1"),
        ("next_sentence_labels", 7, "0 to 1"),
        ("masked_lm_ids", 60, "0 to 59"),
        ("masked_lm_positions", 16, "0 to 15"),
        ("masked_lm_positions", -3, "0 to 15"),
        ("masked_lm_weights", np.nan, "a finite number"),
        ("masked_lm_weights", -np.inf, "a finite number"),
    ],
)
def test_wrong_values_are_named(tmp_path, name, value, valid):
    from tests.support.tiny import write_records  # TensorFlow writes negative numbers too

    examples = batch(130)
    examples[name] = examples[name].astype(np.float32 if "weights" in name else np.int64)
    examples[name][99, 0 if name.endswith("labels") else 2] = value
    paths = write_files(tmp_path)
    write_records(tmp_path / "130.tfrecord", examples)
    index, features = RecordIndex.create(paths), limited(STATIC, VOCAB, 2)
    for buffer in (100, None):
        stream = RecordStream(index, features, EXAMPLES, 3, shuffle_buffer_size=buffer)
        with pytest.raises(InputError, match=f"example 99: {name} must be {valid}, not {value}$"):
            stream.batches()[0]


PAD, CLS, SEP, PAIR_LENGTH = 0, 2, 3, 24


def example(first: list[int], second: list[int], starts=frozenset()) -> dict[str, list[int]]:
    """`[CLS] first [SEP] second [SEP]`; words start at special tokens and at ids in `starts`."""
    ids = [CLS, *first, SEP] + ([*second, SEP] if second else [])
    segments = [0] * (len(first) + 2) + [1] * (len(ids) - len(first) - 2)
    padding = [PAD] * (PAIR_LENGTH - len(ids))
    return {
        "input_ids": ids + padding,
        "input_mask": [1] * len(ids) + padding,
        "segment_ids": segments + padding,
        "token_boundary": [int(id in starts or id in (CLS, SEP)) for id in ids] + padding,
        "next_sentence_labels": [0],
    }


def stacked(examples) -> dict[str, np.ndarray]:
    return {
        name: np.array([example[name] for example in examples], np.int32) for name in examples[0]
    }


@pytest.fixture
def pairs():
    """Return pairs of random segments, and words that start at even ids."""
    random = np.random.default_rng(0)
    return [
        [random.integers(5, VOCAB, random.integers(1, 11)).tolist() for _ in range(2)]
        for _ in range(500)
    ]


def test_half_of_the_pairs_are_swapped_and_everything_moves_along(pairs):
    starts = frozenset(range(6, VOCAB, 2))
    stored = stacked([example(*pair, starts) for pair in pairs])
    before = {name: values.copy() for name, values in stored.items()}
    drawn = draw(stored, np.arange(len(pairs)), MASKS, 1, TRAINING)
    labels = drawn["next_sentence_labels"][:, 0]
    assert 0.4 < labels.mean() < 0.6
    expected = stacked(
        [
            example(*(reversed(pair) if label else pair), starts)
            for pair, label in zip(pairs, labels, strict=True)
        ]
    )
    assert (unmasked(drawn) == expected["input_ids"]).all()
    for name in ("segment_ids", "token_boundary"):
        np.testing.assert_array_equal(drawn[name], expected[name], err_msg=name)
    np.testing.assert_equal(stored, before)


def test_visits_differ_and_can_be_repeated(pairs):
    stored = stacked([example(*pair) for pair in pairs])

    def labels(first, seed=1, purpose=TRAINING):
        numbers = np.arange(first, first + len(pairs))
        return draw(stored, numbers, MASKS, seed, purpose)["next_sentence_labels"][:, 0]

    first = labels(0)
    assert (labels(0) == first).all()
    for other in (labels(500), labels(0, seed=2), labels(0, purpose=EVALUATION)):
        assert 0.4 < (other == first).mean() < 0.6
    assert (labels(250)[:250] == first[250:]).all(), "a function of the number of the visit"


def test_single_segments_and_files_with_swapped_pairs_keep_their_order(pairs):
    numbers = np.arange(len(pairs))
    single = stacked([example(first, []) for first, _ in pairs])
    assert (unmasked(draw(single, numbers, MASKS, 1, TRAINING)) == single["input_ids"]).all()
    old = stacked([example(*pair) for pair in pairs])
    old["next_sentence_labels"][::3] = 1
    drawn = draw(old, numbers, MASKS._replace(swap_segments=False), 1, TRAINING)
    assert (unmasked(drawn) == old["input_ids"]).all()
    assert (drawn["next_sentence_labels"] == old["next_sentence_labels"]).all()


def test_labels_cannot_be_told_from_words_or_masks():
    """A linear classifier stays at chance on examples that it has not seen."""
    random = np.random.default_rng(1)
    # Second segments have other words than first ones.
    lengths = random.integers(1, 11, (300, 2))
    text = [
        (random.integers(5, 30, first), random.integers(25, VOCAB, second))
        for first, second in lengths
    ]
    stored = stacked([example(first.tolist(), second.tolist()) for first, second in text] * 20)
    visits = len(stored["input_ids"])
    drawn = draw(stored, np.arange(visits), MASKS, 1, TRAINING)
    words = np.zeros((visits, VOCAB))
    np.add.at(words, (np.arange(visits)[:, None], drawn["input_ids"]), 1)
    masked = np.zeros((visits, PAIR_LENGTH))
    rows, columns = np.nonzero(drawn["masked_lm_weights"])
    masked[rows, drawn["masked_lm_positions"][rows, columns]] = 1
    features = np.concatenate([words, masked], axis=1)
    labels = drawn["next_sentence_labels"][:, 0]
    half = visits // 2
    classifier = LogisticRegression(max_iter=300).fit(features[:half], labels[:half])
    accuracy = classifier.score(features[half:], labels[half:])
    assert abs(accuracy - 0.5) < 4 * 0.5 / np.sqrt(half)
