"""Batches of examples in memory: their order, and what they contain for any shard and thread."""

import itertools

import numpy as np
import pytest

from albert_tf.input.examples import Features, MemoryStream, TrainingOrder, length_buckets
from albert_tf.input.streams import Shard
from tests.support.batches import PIPELINES, assert_tensorflow_has, assert_threads_share

PAD = 3


def make_features(count: int, choices: int = 0) -> Features:
    draw = np.random.default_rng(count)
    lengths = draw.integers(0, 41, count * (choices or 1)).tolist()
    sequences = ((draw.integers(1, 70000, n), draw.integers(0, 2, n)) for n in lengths)
    labels = {"label_ids": np.arange(count, dtype=np.int32), "scores": np.ones((count, 2), "f4")}
    return Features(sequences, PAD, choices, labels)


FORMS = pytest.mark.parametrize(
    ("count", "choices", "pad_to_max_length"), [(301, 0, False), (29, 3, False), (5, 0, True)]
)


@FORMS
@pytest.mark.parametrize("seed", [3, None])
def test_batches_contain_what_full_padding_contains(count, choices, pad_to_max_length, seed):
    features = make_features(count, choices)
    stream = MemoryStream(features, 48, 4, seed, pad_to_max_length)
    batches, full, lengths = stream.batches(), features.padded(48), set()
    for step in range(min(len(batches), 80)):
        batch = batches[step]
        examples = batch["label_ids"]
        length = batch["input_ids"].shape[-1]
        lengths.add(length)
        longest = features.example_lengths[examples].max()
        buckets = (48,) if pad_to_max_length else length_buckets(48)
        assert length == min(bucket for bucket in buckets if bucket >= longest)
        for name in ("input_ids", "input_mask", "segment_ids"):
            expected = full[name][examples]
            np.testing.assert_array_equal(batch[name], expected[..., :length])
            assert (expected[..., length:] == (PAD if name == "input_ids" else 0)).all()
        assert batch.keys() == batches.element_spec.keys()
        for name, (shape, dtype) in batches.element_spec.items():
            assert batch[name].dtype == dtype
            assert [size or length for size in shape] == list(batch[name].shape)
    assert len(lengths) > 1 or pad_to_max_length


def test_batches_come_in_the_order_of_training():
    features = make_features(30)
    batches = MemoryStream(features, 48, 4, seed=1).batches()
    order = TrainingOrder(features.example_lengths, 4, 1)
    expected = np.concatenate([order.of_epoch(epoch) for epoch in range(4)])
    assert [batches[step]["label_ids"].tolist() for step in range(24)] == expected[:24].tolist()


@pytest.mark.parametrize("choices", [0, 2])
def test_evaluation_has_every_example_once_under_its_number(choices):
    features = make_features(21, choices)
    seen: list[int] = []
    batches = MemoryStream(features, 48, 4).batches()
    for batch in batches:
        real = batch["example_number"] >= 0
        np.testing.assert_array_equal(batch["is_real_example"], real)
        assert len(real) == 4
        np.testing.assert_array_equal(batch["label_ids"][real], batch["example_number"][real])
        seen += batch["example_number"][real].tolist()
    assert sorted(seen) == list(range(21))
    assert (np.diff(features.example_lengths[seen]) <= 0).all()
    with pytest.raises(IndexError):
        batches[len(batches)]


@pytest.mark.integration
@FORMS
def test_tensorflow_gets_the_same_batches(count, choices, pad_to_max_length):
    features = make_features(count, choices)
    training = MemoryStream(features, 48, 8, 3, pad_to_max_length)
    evaluation = MemoryStream(features, 48, 8, pad_to_max_length=pad_to_max_length)
    for shard, replicas in PIPELINES:
        for first in (0, 1000):
            assert_tensorflow_has(training, shard, replicas, first, first + 2 * count // 8 + 3)
        assert_tensorflow_has(evaluation, shard, replicas, 0, len(evaluation.batches()))


@FORMS
def test_threads_get_what_one_thread_gets(count, choices, pad_to_max_length):
    stream = MemoryStream(make_features(count, choices), 48, 8, 3, pad_to_max_length)
    assert_threads_share(stream, Shard(1, 2))


@pytest.mark.parametrize("seed", [1, None])
def test_what_is_too_long_is_refused(seed):
    with pytest.raises(ValueError, match="at most 8"):
        MemoryStream(make_features(30), 8, 4, seed).batches()


def test_arrays_are_the_whole_of_features():
    features = make_features(5, 2)
    again = Features.from_arrays(features.to_arrays() | {"other": np.zeros(1)})
    np.testing.assert_equal(again.padded(48), features.padded(48))
    assert (again.choices, len(again)) == (2, 5)


@pytest.mark.parametrize("longest", [5, 8, 20, 64, 100, 512])
def test_buckets_rise_to_the_longest_and_waste_at_most_a_third(longest):
    buckets = length_buckets(longest)
    assert buckets[-1] == longest
    assert list(buckets) == sorted(set(buckets))
    assert all(b <= 1.5 * a for a, b in itertools.pairwise(buckets))
    assert len(buckets) <= 13


@pytest.mark.parametrize("window", [1, 2, 50])
@pytest.mark.parametrize(("count", "batch_size"), [(24, 4), (23, 4), (3, 7), (1, 4), (50, 50)])
def test_every_example_comes_once_in_every_epoch(count, batch_size, window):
    order = TrainingOrder(np.arange(count), batch_size, seed=5, window=window)
    epochs = 6
    seen = np.concatenate([order.of_epoch(epoch).ravel() for epoch in range(epochs)])
    assert len(seen) % batch_size == 0
    assert len(seen) - count * epochs in range(batch_size)
    counts = np.bincount(seen, minlength=count)
    assert (counts >= epochs).all()
    assert (counts - epochs).max() <= -(-batch_size // count)
    # Batches inside an epoch hold nothing of another one.
    for epoch in range(epochs):
        first = -(-epoch * count // batch_size) * batch_size
        inside = seen[first : max((epoch + 1) * count // batch_size * batch_size, first)]
        assert len(set(inside.tolist())) == len(inside)


def test_orders_depend_on_the_seed_and_differ_between_epochs():
    def order(seed, epoch):
        return TrainingOrder(np.full(40, 9), 4, seed).of_epoch(epoch).tolist()

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)
    assert order(-1, 0) != order(1, 0)


def test_examples_in_a_batch_are_of_similar_length_and_batches_come_in_no_order():
    lengths = np.random.default_rng(0).integers(1, 100, 2000)

    def spread(window):
        batches = lengths[TrainingOrder(lengths, 8, 0, window).of_epoch(0)]
        return np.ptp(batches, axis=1).mean()

    assert spread(50) < spread(1) / 10
    means = lengths[TrainingOrder(lengths, 8, 0).of_epoch(0)].mean(axis=1)
    assert abs(np.corrcoef(means[:50], np.arange(50))[0, 1]) < 0.5
