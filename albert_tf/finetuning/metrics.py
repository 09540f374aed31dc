"""Metrics by name, all from scikit-learn and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from albert_tf.report.intervals import Interval, bootstrap, wilson


class Metric(NamedTuple):
    """A metric.

    Attributes:
        key: its name in `eval_results.txt`, the same as in the original where that has it.
        compute: computes it from the truth and the predictions: `[examples]` ids or values, or
            `[examples, labels]` of 0 and 1.
    """

    key: str
    compute: Callable[[np.ndarray, np.ndarray], float]


def _of_sklearn(name: str, **arguments: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    def compute(truth: np.ndarray, predicted: np.ndarray) -> float:
        from sklearn import metrics  # slow to load, and needed after training

        return getattr(metrics, name)(truth, predicted, **arguments)

    return compute


def _f1(average: str) -> Callable[[np.ndarray, np.ndarray], float]:
    return _of_sklearn("f1_score", average=average, zero_division=0)


def _correlation(name: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """0 where truth or predictions are constant, like Matthews correlation."""

    def correlation(truth: np.ndarray, predicted: np.ndarray) -> float:
        if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
            return 0.0
        statistic = getattr(scipy.stats, name)  # which SciPy loads here
        return statistic(truth.astype(np.float64), predicted.astype(np.float64)).statistic

    return correlation


METRICS: dict[str, Metric] = {
    "accuracy": Metric("eval_accuracy", _of_sklearn("accuracy_score")),
    "f1": Metric("eval_f1", _f1("binary")),  # of the label 1, as in GLUE
    "macro_f1": Metric("eval_macro_f1", _f1("macro")),
    "micro_f1": Metric("eval_micro_f1", _f1("micro")),
    "exact_match": Metric("eval_exact_match", _of_sklearn("accuracy_score")),
    "matthew_corr": Metric("matthew_corr", _of_sklearn("matthews_corrcoef")),
    "pearson": Metric("pearson", _correlation("pearsonr")),
    "spearman": Metric("spearman", _correlation("spearmanr")),
    "mse": Metric("MSE", _of_sklearn("mean_squared_error")),
}


def score(names: tuple[str, ...], truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return results by their keys.

    Args:
        names: keys of `METRICS`.
        truth: the labels.
        predicted: of the same shape.
    """
    return {METRICS[name].key: float(METRICS[name].compute(truth, predicted)) for name in names}


def intervals_of(
    names: Sequence[str], truth: np.ndarray, predicted: np.ndarray
) -> dict[str, Interval]:
    """95 % confidence intervals of results: Wilson's for the accuracy, else bootstrap.

    Args:
        names: keys of `METRICS`.
        truth, predicted: `[examples, ...]`.

    Returns:
        Intervals by the keys of the metrics.
    """
    return {
        METRICS[name].key: wilson((truth == predicted).sum(), len(truth))
        if name == "accuracy"
        else bootstrap(METRICS[name].compute, truth, predicted)
        for name in names
    }
