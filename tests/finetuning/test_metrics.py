"""Metrics, against scikit-learn, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.finetuning.metrics import METRICS

ORACLES = {
    "accuracy": metrics.accuracy_score,
    "exact_match": metrics.accuracy_score,
    "f1": lambda *arrays: metrics.f1_score(*arrays, average="binary", zero_division=0),
    "macro_f1": lambda *arrays: metrics.f1_score(*arrays, average="macro", zero_division=0),
    "micro_f1": lambda *arrays: metrics.f1_score(*arrays, average="micro", zero_division=0),
    "matthew_corr": metrics.matthews_corrcoef,
}


def samples(shape, labels, seed):
    """Truth and predictions that agree in most places."""
    draw = np.random.default_rng(seed)
    truth, other = draw.integers(0, labels, (2, *shape))
    predicted = np.where(draw.random(shape) < 0.7, truth, other)
    return truth, predicted.astype(np.int32)


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("name", ["accuracy", "f1", "macro_f1", "matthew_corr"])
def test_of_classes(name):
    labels = (1, 2) if name == "f1" else (1, 2, 3, 12)
    for seed in range(12):
        for count in labels:
            arrays = samples((1 + 3 * seed,), count, seed)
            assert METRICS[name].compute(*arrays) == ORACLES[name](*arrays), arrays


@pytest.mark.parametrize("name", ["exact_match", "macro_f1", "micro_f1"])
def test_of_sets_of_labels(name):
    for seed in range(12):
        for count in (1, 2, 3, 6):
            truth, predicted = samples((1 + 3 * seed, count), 2, seed)
            truth[:, -1] &= seed % 2  # a label that may not occur
            arrays = truth.astype(np.int32), predicted
            assert METRICS[name].compute(*arrays) == ORACLES[name](*arrays), arrays
