"""Batches of examples in memory: what is in them, and where a run resumes."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.engines.tensorflow.batches import memory_evaluation_batches, memory_training_batches
from albert_tf.input.example_order import TrainingOrder, length_buckets
from albert_tf.input.examples import Features

PAD = 3


def make_features(count: int, longest: int, choices: int = 0, seed: int = 0) -> Features:
    """Random examples whose first token is their number."""
    draw = np.random.default_rng(seed)
    sequences = []
    for number in range(count * (choices or 1)):
        length = int(draw.integers(2, longest + 1))
        tokens = np.append(number, draw.integers(10, 70000, length - 1))
        sequences.append((tokens, (np.arange(length) > length // 2).astype(int)))
    labels = np.arange(count, dtype=np.int32) * 7
    return Features(sequences, PAD, choices, {"label_ids": labels})


def numbers(batch: dict[str, np.ndarray]) -> list[int]:
    return (batch["label_ids"] // 7).tolist()


@pytest.mark.integration
@pytest.mark.parametrize("choices", [0, 3])
@pytest.mark.parametrize("pad_to_max_length", [False, True])
def test_batches_hold_what_full_padding_holds(choices, pad_to_max_length):
    features = make_features(30, 40, choices)
    full = features.padded(50)
    batches = memory_training_batches(features, 50, 4, 1, pad_to_max_length=pad_to_max_length)
    lengths = set()
    for batch in batches.take(20).as_numpy_iterator():
        length = batch["input_ids"].shape[-1]
        lengths.add(length)
        longest = features.example_lengths[numbers(batch)].max()
        buckets = (50,) if pad_to_max_length else length_buckets(50)
        assert length == min(bucket for bucket in buckets if bucket >= longest)
        for name in ("input_ids", "input_mask", "segment_ids"):
            expected = full[name][numbers(batch)]
            np.testing.assert_array_equal(batch[name], expected[..., :length])
            assert (expected[..., length:] == (PAD if name == "input_ids" else 0)).all()
    assert len(lengths) > 1 or pad_to_max_length


@pytest.mark.integration
@pytest.mark.parametrize("first_step", [1, 7, 8, 23, 1000])
def test_a_run_that_goes_on_sees_the_same_batches(first_step):
    features = make_features(30, 20)

    def read(first, count):
        batches = memory_training_batches(features, 24, 4, 1, first).take(count)
        return [numbers(batch) for batch in batches.as_numpy_iterator()]

    if first_step < 100:
        assert read(0, first_step + 9)[first_step:] == read(first_step, 9)
    else:  # as the order says, without the steps before
        order = TrainingOrder(features.example_lengths, 4, 1)
        epoch, skipped = order.locate(first_step)
        expected = np.concatenate([order.of_epoch(e) for e in range(epoch, epoch + 4)])
        assert read(first_step, 9) == expected[skipped : skipped + 9].tolist()


@pytest.mark.parametrize("choices", [0, 2])
def test_evaluation_has_every_example_once_under_its_number(choices):
    features = make_features(21, 30, choices)
    seen = []
    for batch in memory_evaluation_batches(features, 32, 4).as_numpy_iterator():
        real = batch["example_number"] >= 0
        np.testing.assert_array_equal(batch["is_real_example"], real)
        assert len(real) == 4
        np.testing.assert_array_equal(batch["label_ids"][real] // 7, batch["example_number"][real])
        seen += batch["example_number"][real].tolist()
    assert sorted(seen) == list(range(21))
    lengths = features.example_lengths[seen]
    assert (np.diff(lengths) <= 0).all()


def test_what_is_too_long_is_refused_and_arrays_are_the_whole_of_features():
    features = make_features(5, 30, 2)
    with pytest.raises(ValueError, match="at most 8"):
        memory_evaluation_batches(features, 8, 4)
    again = Features.from_arrays(features.to_arrays() | {"other": np.zeros(1)})
    for name, value in features.padded(32).items():
        np.testing.assert_array_equal(again.padded(32)[name], value)
    assert (again.choices, len(again)) == (2, 5)


def test_iterators_go_at_once():
    # What waits is a thread that only iterators of a certain age have to wait for.
    features = make_features(9, 20)
    for batches in (
        memory_training_batches(features, 20, 4, seed=1),
        memory_evaluation_batches(features, 20, 4),
    ):
        assert batches.options().autotune.enabled is False
