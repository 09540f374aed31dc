"""Scores of predictions, all from scikit-learn and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn import metrics


class Metric(NamedTuple):
    """A score.

    Attributes:
        key: its name in `eval_results.txt`, the original's where it has the score.
        of: computes it from the truth and the predictions: `[examples]` ids or values, or
            `[examples, labels]` of 0 and 1.
    """

    key: str
    of: Callable[[np.ndarray, np.ndarray], float]


def _f1(average: str) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda truth, guesses: metrics.f1_score(truth, guesses, average=average, zero_division=0)


def _correlation(of: Callable) -> Callable[[np.ndarray, np.ndarray], float]:
    """0 where truth or predictions are constant, as Matthews' is there."""

    def correlation(truth: np.ndarray, guesses: np.ndarray) -> float:
        if np.ptp(truth) == 0 or np.ptp(guesses) == 0:
            return 0.0
        return of(truth.astype(np.float64), guesses.astype(np.float64)).statistic

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


def score(names: tuple[str, ...], truth: np.ndarray, guesses: np.ndarray) -> dict[str, float]:
    """Scores by their keys.

    Args:
        names: keys of `METRICS`.
        truth: what is right.
        guesses: what is predicted, alike.
    """
    return {METRICS[name].key: float(METRICS[name].of(truth, guesses)) for name in names}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """A probability for every logit, float64."""
    return 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -700, 700)))
