"""Batches of examples in memory: those of the TensorFlow engine, for any share, step and thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from albert_tf.input.examples import Features
from albert_tf.input.memory_batches import MemoryEvaluationBatches, MemoryTrainingBatches
from albert_tf.input.share import Share
from tests.support.batches import SHARES, assert_same, joined


def make_features(count: int, choices: int = 0) -> Features:
    draw = np.random.default_rng(count)
    lengths = draw.integers(0, 41, count * (choices or 1)).tolist()
    sequences = ((draw.integers(1, 70000, n), draw.integers(0, 2, n)) for n in lengths)
    labels = {"label_ids": np.arange(count, dtype=np.int32), "scores": np.ones((count, 2), "f4")}
    return Features(sequences, 3, choices, labels)


FORMS = pytest.mark.parametrize(
    ("count", "choices", "pad_to_max_length"), [(300, 0, False), (29, 3, False), (5, 0, True)]
)


@pytest.mark.integration
@FORMS
def test_batches_are_those_of_tensorflow(count, choices, pad_to_max_length):
    from albert_tf.engines.tensorflow import batches as tensorflow

    features = make_features(count, choices)
    for share in SHARES:
        for first in (0, 1000):
            dataset = tensorflow.memory_training_batches(
                features, 48, 8, 3, first, pad_to_max_length, share
            )
            training = MemoryTrainingBatches(features, 48, 8, 3, pad_to_max_length, share)
            for step, expected in enumerate(joined(dataset, share, 2 * count // 8 + 3), first):
                assert_same(training[step], expected)
        dataset = tensorflow.memory_evaluation_batches(features, 48, 8, pad_to_max_length, share)
        evaluation = MemoryEvaluationBatches(features, 48, 8, pad_to_max_length, share)
        assert sum(1 for _ in dataset) == len(evaluation) * share.replicas
        for step, expected in enumerate(joined(dataset, share, len(evaluation))):
            assert_same(evaluation[step], expected)
        with pytest.raises(IndexError):
            evaluation[len(evaluation)]


@FORMS
def test_threads_get_what_one_thread_gets(count, choices, pad_to_max_length):
    arguments = make_features(count, choices), 48, 8, 3, pad_to_max_length, Share(1, 2)
    alone, shared = MemoryTrainingBatches(*arguments), MemoryTrainingBatches(*arguments)
    steps = np.random.default_rng(0).permutation(200).tolist()
    with ThreadPoolExecutor(8) as threads:
        for step, found in zip(steps, threads.map(shared.__getitem__, steps), strict=True):
            assert_same(found, alone[step])


def test_what_is_too_long_is_refused():
    for batches in (
        lambda: MemoryTrainingBatches(make_features(30), 8, 4, 1),
        lambda: MemoryEvaluationBatches(make_features(30), 8, 4),
    ):
        with pytest.raises(ValueError, match="at most 8"):
            batches()
