"""The order of examples in memory, and the lengths of their batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from albert_tf.input.memory_batches import TrainingOrder, length_buckets


@pytest.mark.parametrize("longest", [5, 8, 20, 64, 100, 512])
def test_buckets_rise_to_the_longest_and_waste_at_most_a_third(longest):
    buckets = length_buckets(longest)
    assert buckets[-1] == longest
    assert list(buckets) == sorted(set(buckets))
    assert all(length % 8 == 0 for length in buckets[:-1])
    # At most half of the one before is added, from 16 on.
    assert all(b <= 1.5 * a for a, b in itertools.pairwise(buckets) if a >= 16)
    assert len(buckets) <= 12


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
