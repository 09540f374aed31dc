"""95 % confidence intervals of results, for the random choice of examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

RESAMPLES = 1000


class Interval(NamedTuple):
    """A 95 % interval and the method that computed it."""

    low: float
    high: float
    method: str


def wilson(right: int, count: int) -> Interval:
    """Return Wilson's score interval of a share.

    Args:
        right: number of correct predictions, at most `count`.
        count: number of examples, at least 1.
    """
    # SciPy loads `stats` here, which takes a while.
    interval = scipy.stats.binomtest(int(right), int(count)).proportion_ci(method="wilson")
    return Interval(float(interval.low), float(interval.high), "Wilson")


def bootstrap(
    statistic: Callable[..., float], *arrays: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return the bootstrap percentile interval of any statistic of examples.

    Args:
        statistic: function of arrays like `arrays`; samples for which it is NaN are left out.
        *arrays: `[examples, ...]`, resampled together.
        resamples: number of samples with replacement.
        seed: random seed; the same seed gives the same interval.
    """
    draw = np.random.default_rng(seed)
    count = len(arrays[0])
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for example of samples that lack a label
        for _ in range(resamples):
            rows = draw.integers(0, count, count)
            values.append(float(statistic(*(array[rows] for array in arrays))))
    values = [value for value in values if np.isfinite(value)]
    low, high = np.percentile(values, [2.5, 97.5]) if values else (np.nan, np.nan)
    return Interval(float(low), float(high), f"bootstrap, {resamples} draws")
