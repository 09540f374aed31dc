"""95 % intervals."""

import numpy as np
import pytest

from albert_tf.finetuning.metrics import METRICS
from albert_tf.report.intervals import (
    RESAMPLES,
    Interval,
    bootstrap,
    bootstrap_mean,
    number_text,
    wilson,
)


@pytest.mark.parametrize(("right", "count"), [(0, 10), (10, 10), (1, 1), (3, 7)])
def test_wilson_by_its_formula(right, count):
    z, share = 1.959964, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    interval = wilson(right, count)
    assert interval.low == pytest.approx(middle - half, abs=1e-6)
    assert interval.high == pytest.approx(middle + half, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "low", "high", "percent", "texts"),
    [
        (68.868, 62.35, 74.72, True, ("68.9%", "62.4 to 74.7%")),
        (50.0, 10.0, 90.0, True, ("50%", "10 to 90%")),
        (90.123, 90.1, 90.2, True, ("90.12%", "90.10 to 90.20%")),
        (0.62555, 0.5677, 0.6882, False, ("0.626", "0.568 to 0.688")),
        (11873.0, 1.0, 1.0, False, ("11,873", "")),
        (100.0, 100.0, 100.0, True, ("100.0%", "")),
    ],
)
def test_digits_fit_the_interval(value, low, high, percent, texts):
    assert number_text(value, Interval(low, high, ""), percent) == texts


def test_bootstrap_of_a_mean_is_that_of_the_normal_distribution(monkeypatch):
    values = np.random.default_rng(3).normal(5, 2, 400)
    interval = bootstrap_mean(values)
    error = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - error, abs=0.04)
    assert interval.high == pytest.approx(values.mean() + error, abs=0.04)
    assert interval != bootstrap(lambda counts: counts @ values / 400, 400, seed=1)
    monkeypatch.setattr("albert_tf.report.intervals._MOST_COUNTS", 400 * 7)
    assert bootstrap_mean(values)[:2] == pytest.approx(interval[:2]), "in parts"


def test_draws_that_are_not_a_number_are_left_out():
    # The mean of the ones alone: nothing where none was drawn.
    low, high, _ = bootstrap(lambda counts: np.where(counts[:, 1], 1.0, np.nan), 2)
    assert (low, high) == (1, 1)
    assert np.isnan(bootstrap(lambda counts: np.full(len(counts), np.nan), 2).low)


def arrays(name, draw):
    """Return the truth and the predictions of a few examples."""
    count = draw.integers(2, 12)
    if name in ("pearson", "spearman", "mse"):  # with ties, and samples of equal values
        return draw.integers(0, 4, count) / 7, draw.integers(0, 4, count) / 3
    if name == "f1" or draw.random() < 0.3:
        return draw.integers(0, 2, (2, count))
    if name in ("micro_f1", "macro_f1", "exact_match") and draw.random() < 0.5:
        return draw.integers(0, 2, (2, count, 3))  # sets of labels
    return draw.integers(0, 4, (2, count))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore")  # of samples that lack a label
def test_metrics_of_many_samples_are_those_of_each(name):
    draw = np.random.default_rng(4)
    for _ in range(8):
        truth, predicted = arrays(name, draw)
        rows = draw.integers(0, len(truth), (10, len(truth)))
        counts = np.array([np.bincount(each, minlength=len(truth)) for each in rows], float)
        np.testing.assert_allclose(
            METRICS[name].of_samples(truth, predicted, counts),
            [METRICS[name].compute(truth[each], predicted[each]) for each in rows],
            atol=1e-12,
        )


def test_samples_are_drawn_with_replacement_one_after_the_other():
    draw, values = np.random.default_rng(0), np.random.default_rng(1).normal(size=30)
    means = [values[draw.integers(0, 30, 30)].mean() for _ in range(RESAMPLES)]
    assert bootstrap_mean(values)[:2] == pytest.approx(np.percentile(means, [2.5, 97.5]))
