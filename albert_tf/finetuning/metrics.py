"""Metrics by name, all from scikit-learn and SciPy."""

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
    return lambda truth, predicted: metrics.f1_score(
        truth, predicted, average=average, zero_division=0
    )


def _correlation(statistic: Callable) -> Callable[[np.ndarray, np.ndarray], float]:
    """0 where truth or predictions are constant, like Matthews correlation."""

    def correlation(truth: np.ndarray, predicted: np.ndarray) -> float:
        if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
            return 0.0
        return statistic(truth.astype(np.float64), predicted.astype(np.float64)).statistic

    return correlation


METRICS: dict[str, Metric] = {
    "accuracy": Metric("eval_accuracy", metrics.accuracy_score),
    "f1": Metric("eval_f1", _f1("binary")),  # of the label 1, as in GLUE
    "macro_f1": Metric("eval_macro_f1", _f1("macro")),
    "micro_f1": Metric("eval_micro_f1", _f1("micro")),
    "exact_match": Metric("eval_exact_match", metrics.accuracy_score),
    "matthew_corr": Metric("matthew_corr", metrics.matthews_corrcoef),
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
