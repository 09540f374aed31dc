"""Metrics by name: those of scikit-learn and SciPy.

Metrics that reports draw samples for are computed here, to the bit as in scikit-learn: with a
thousand small samples, the checks of its arguments take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn import metrics


class Metric(NamedTuple):
    """A metric.

    Attributes:
        key: its name in `eval_results.txt`, the same as in the original where that has it.
        compute: computes it from the truth and the predictions: `[examples]` ids or values, or
            `[examples, labels]` of 0 and 1.
    """

    key: str
    compute: Callable[[np.ndarray, np.ndarray], float]


def _f1(average: str) -> Callable[[np.ndarray, np.ndarray], float]:
    def f1(truth: np.ndarray, predicted: np.ndarray) -> float:
        if truth.ndim > 1 and truth.shape[1] > 1:
            right = (truth & predicted).sum(axis=0)
            total = truth.sum(axis=0) + predicted.sum(axis=0)
        else:
            confusions, labels = _confusions(truth, predicted)
            right = confusions.diagonal()
            total = confusions.sum(axis=0) + confusions.sum(axis=1)
            if average == "binary":
                right, total = right[labels == 1], total[labels == 1]
        if average != "macro":
            right, total = right.sum(keepdims=True), total.sum(keepdims=True)
        scores = np.zeros(len(total))
        np.divide(2.0 * right, total, out=scores, where=total > 0)
        return float(np.average(scores))

    return f1


def _confusions(truth: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts `[truth, predicted]` of the labels that occur, and these labels, ascending."""
    labels, places = np.unique(np.stack([truth.ravel(), predicted.ravel()]), return_inverse=True)
    count = len(labels)
    rows, columns = places.reshape(2, -1)
    cells = np.bincount(rows * count + columns, minlength=count**2)
    return cells.reshape(count, count), labels


def _matthews(truth: np.ndarray, predicted: np.ndarray) -> float:
    confusions, _ = _confusions(truth, predicted)
    of_truth, of_predicted = (confusions.sum(axis=axis, dtype=np.float64) for axis in (1, 0))
    right, count = np.trace(confusions, dtype=np.float64), of_predicted.sum()
    covariance = right * count - np.dot(of_truth, of_predicted)
    variances = [count**2 - np.dot(sums, sums) for sums in (of_predicted, of_truth)]
    product = variances[0] * variances[1]
    return float(covariance / np.sqrt(product)) if product else 0.0


def _all_equal(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The share of examples whose labels are all right."""
    return float((truth == predicted).reshape(len(truth), -1).all(axis=1).mean())


def _correlation(statistic: Callable) -> Callable[[np.ndarray, np.ndarray], float]:
    """0 where truth or predictions are constant, like Matthews correlation."""

    def correlation(truth: np.ndarray, predicted: np.ndarray) -> float:
        if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
            return 0.0
        return statistic(truth.astype(np.float64), predicted.astype(np.float64)).statistic

    return correlation


METRICS: dict[str, Metric] = {
    "accuracy": Metric("eval_accuracy", _all_equal),
    "f1": Metric("eval_f1", _f1("binary")),  # of the label 1, as in GLUE
    "macro_f1": Metric("eval_macro_f1", _f1("macro")),
    "micro_f1": Metric("eval_micro_f1", _f1("micro")),
    "exact_match": Metric("eval_exact_match", _all_equal),
    "matthew_corr": Metric("matthew_corr", _matthews),
    "pearson": Metric("pearson", _correlation(stats.pearsonr)),
    "spearman": Metric("spearman", _correlation(stats.spearmanr)),
    "mse": Metric("MSE", metrics.mean_squared_error),
}


def score(names: tuple[str, ...], truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Results by their keys.

    Args:
        names: keys of `METRICS`.
        truth: the labels.
        predicted: of the same shape.
    """
    return {METRICS[name].key: float(METRICS[name].compute(truth, predicted)) for name in names}
