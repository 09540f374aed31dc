"""95 % confidence intervals of results, for the random choice of examples."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RESAMPLES = 1000
# Standard deviations of a normal distribution that hold 95 % of it on both sides of its mean.
_DEVIATIONS = 1.959963984540054
# Of samples that are computed together: 32 MB.
_MOST_COUNTS = 1 << 22


class Interval(NamedTuple):
    """A 95 % interval and the method that computed it."""

    low: float
    high: float
    method: str


def number_text(
    value: float, interval: Interval | None = None, percent: bool = False
) -> tuple[str, str]:
    """Return a value and its interval as text, with the digits that the interval's width allows.

    Without an interval, its text is "". Both may be in percent.
    """
    unit = "%" if percent else ""
    if interval is None or not interval.low < interval.high:
        count = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
        return f"{value:.1f}%" if percent else count, ""
    half = (interval.high - interval.low) / 2
    digits = min(max(1 - math.floor(math.log10(half)), 0), 2 if percent else 6)
    shown, low, high = (f"{each:.{digits}f}" for each in (value, interval.low, interval.high))
    return f"{shown}{unit}", f"{low} to {high}{unit}"


def wilson(right: float, count: float) -> Interval:
    """Return Wilson's score interval of the share of `right` predictions among a positive count."""
    # By formula: `scipy.stats`, which has it too, takes longer to load than a report to write.
    share, z2 = float(right) / float(count), _DEVIATIONS**2 / float(count)
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * share * (1 - share) + z2**2 / 4) / (1 + z2)
    return Interval(max(middle - half, 0.0), min(middle + half, 1.0), "Wilson")


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray], examples: int, seed: int = 0
) -> Interval:
    """Return the bootstrap percentile interval of any statistic of examples.

    Args:
        statistic: `[samples, examples]`, how often each sample has each example -> `[samples]`;
            for a mean, `lambda counts: counts @ values / len(values)`. NaN values are left out.
        seed: random seed; the same seed gives the same interval.
    """
    draw = np.random.default_rng(seed)
    at_once = max(1, min(RESAMPLES, _MOST_COUNTS // examples))
    sizes = (min(at_once, RESAMPLES - start) for start in range(0, RESAMPLES, at_once))
    values = np.concatenate([statistic(_counts(draw, size, examples)) for size in sizes])
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, [2.5, 97.5]) if len(values) else (np.nan, np.nan)
    return Interval(float(low), float(high), f"bootstrap, {RESAMPLES} draws")


def bootstrap_mean(values: np.ndarray) -> Interval:
    """Return the bootstrap percentile interval of the mean of `values`, `[examples]`."""
    return bootstrap(lambda counts: counts @ values / len(values), len(values))


def _counts(draw: np.random.Generator, samples: int, examples: int) -> np.ndarray:
    """Return how often each sample with replacement has each example, in float64 for products."""
    rows = draw.integers(0, examples, (samples, examples))
    rows += examples * np.arange(samples)[:, None]
    counts = np.bincount(rows.ravel(), minlength=rows.size)
    return counts.reshape(rows.shape).astype(np.float64)
