"""Metrics by name, all from scikit-learn and SciPy."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy

from albert_tf.report.intervals import Interval, bootstrap, wilson

# Truth and predictions, and how often each of `[samples, examples]` counts -> `[samples]`.
OfSamples = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Metric(NamedTuple):
    """A metric.

    Attributes:
        key: its name in `eval_results.txt`, the same as in the original where that has it.
        compute: computes it from the truth and the predictions: `[examples]` ids or values, or
            `[examples, labels]` of 0 and 1.
        of_samples: computes the same of many samples of the examples at once, for intervals.
    """

    key: str
    compute: Callable[[np.ndarray, np.ndarray], float]
    of_samples: OfSamples


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


def _matches(truth: np.ndarray, predicted: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Return `[samples, labels]`: correct predictions, labels, and predictions of each label."""
    if truth.ndim > 1:
        return [counts @ each.astype(np.float64) for each in (truth * predicted, truth, predicted)]
    labels, ids = np.unique([truth, predicted], return_inverse=True)
    of, found = ids.reshape(2, -1)

    def sums(ids: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(ids, each, len(labels)) for each in weights])

    return [sums(of, counts * (of == found)), sums(of, counts), sums(found, counts)]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _f1_of_samples(average: str) -> OfSamples:
    def compute(truth, predicted, counts):
        if average == "binary":
            truth, predicted = (truth == 1)[:, None], (predicted == 1)[:, None]
        correct, labels, found = _matches(truth, predicted, counts)
        if average == "micro":
            return _ratio(2 * correct.sum(axis=1), (labels + found).sum(axis=1))
        f1 = _ratio(2 * correct, labels + found)
        # As scikit-learn, of the labels that a sample has; of sets of labels, of all.
        seen = labels + found > 0 if truth.ndim == 1 else np.ones_like(f1)
        return f1.sum(axis=1) / seen.sum(axis=1)

    return compute


def _matthews_of_samples(truth, predicted, counts):
    correct, labels, found = _matches(truth, predicted, counts)
    count = counts.sum(axis=1)
    covariance = correct.sum(axis=1) * count - (labels * found).sum(axis=1)
    variances = [count**2 - (each**2).sum(axis=1) for each in (labels, found)]
    return _ratio(covariance, np.sqrt(variances[0] * variances[1]))


def _pearson_of_samples(truth, predicted, counts):
    x, y = truth - truth.mean(), predicted - predicted.mean()
    mean_x, mean_y, xx, yy, xy = (counts @ np.stack([x, y, x * x, y * y, x * y], -1)).T / len(x)
    return _correlation_of(xy - mean_x * mean_y, xx, xx - mean_x**2, yy, yy - mean_y**2)


def _spearman_of_samples(truth, predicted, counts):
    x, y = _centered_ranks(truth, counts), _centered_ranks(predicted, counts)
    xx, yy, xy = (np.einsum("se,se->s", counts * a, b) for a, b in ((x, x), (y, y), (x, y)))
    return _correlation_of(xy, xx, xx, yy, yy)


def _correlation_of(covariance, square_x, variance_x, square_y, variance_y):
    """0 where one variance is 0 compared with the mean square, but for rounding."""
    vary = (variance_x > 1e-12 * square_x) & (variance_y > 1e-12 * square_y)
    return _ratio(covariance, np.sqrt(np.where(vary, variance_x * variance_y, 0)))


def _centered_ranks(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return `[samples, examples]`: the ranks in each sample, of equal values their mean."""
    _, groups = np.unique(values, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(groups.max() + 1))
    of_group = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks = np.cumsum(of_group, axis=1) - (of_group + len(values)) / 2
    return ranks[:, groups]


def _mean_of_samples(of_example: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> OfSamples:
    return lambda truth, predicted, counts: counts @ of_example(truth, predicted) / len(truth)


def _is_equal(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return (truth == predicted).reshape(len(truth), -1).all(axis=1).astype(np.float64)


METRICS: dict[str, Metric] = {
    "accuracy": Metric("eval_accuracy", _of_sklearn("accuracy_score"), _mean_of_samples(_is_equal)),
    # Of the label 1, as in GLUE.
    "f1": Metric("eval_f1", _f1("binary"), _f1_of_samples("binary")),
    "macro_f1": Metric("eval_macro_f1", _f1("macro"), _f1_of_samples("macro")),
    "micro_f1": Metric("eval_micro_f1", _f1("micro"), _f1_of_samples("micro")),
    "exact_match": Metric(
        "eval_exact_match", _of_sklearn("accuracy_score"), _mean_of_samples(_is_equal)
    ),
    "matthew_corr": Metric("matthew_corr", _of_sklearn("matthews_corrcoef"), _matthews_of_samples),
    "pearson": Metric("pearson", _correlation("pearsonr"), _pearson_of_samples),
    "spearman": Metric("spearman", _correlation("spearmanr"), _spearman_of_samples),
    "mse": Metric(
        "MSE",
        _of_sklearn("mean_squared_error"),
        _mean_of_samples(lambda truth, predicted: (truth - predicted) ** 2),
    ),
}


def score(names: tuple[str, ...], truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return results by their keys, given names in `METRICS`."""
    return {METRICS[name].key: float(METRICS[name].compute(truth, predicted)) for name in names}


def intervals_of(
    names: Sequence[str], truth: np.ndarray, predicted: np.ndarray
) -> dict[str, Interval]:
    """Return the 95 % intervals of the same results: Wilson's for the accuracy, else bootstrap."""
    return {
        METRICS[name].key: wilson((truth == predicted).sum(), len(truth))
        if name == "accuracy"
        else bootstrap(partial(METRICS[name].of_samples, truth, predicted), len(truth))
        for name in names
    }
