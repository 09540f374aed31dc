"""95 % intervals."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.report.intervals import RESAMPLES, bootstrap, wilson


@pytest.mark.parametrize(("right", "count"), [(0, 10), (10, 10), (1, 1), (3, 7)])
def test_wilson_by_its_formula(right, count):
    z, share = 1.959964, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    interval = wilson(right, count)
    assert interval.low == pytest.approx(middle - half, abs=1e-6)
    assert interval.high == pytest.approx(middle + half, abs=1e-6)


def test_bootstrap_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(3).normal(5, 2, 400)
    interval = bootstrap(np.mean, values, resamples=RESAMPLES)
    error = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - error, abs=0.04)
    assert interval.high == pytest.approx(values.mean() + error, abs=0.04)
    assert interval == bootstrap(np.mean, values, resamples=RESAMPLES)
    assert interval != bootstrap(np.mean, values, resamples=RESAMPLES, seed=1)


def test_bootstrap_draws_arrays_together():
    x = np.random.default_rng(0).normal(size=50)
    low, high, _ = bootstrap(lambda a, b: np.corrcoef(a, b)[0, 1], x, 2 * x + 1)
    assert (low, high) == pytest.approx((1, 1))


def test_draws_that_are_not_a_number_are_left_out():
    values = np.array([0.0, 1.0])
    # The mean of the ones alone: nothing where none was drawn.
    low, high, _ = bootstrap(lambda x: np.nan if x.sum() == 0 else x[x > 0].mean(), values)
    assert (low, high) == (1, 1)
    assert np.isnan(bootstrap(lambda x: np.nan, values).low)
