"""LAMB against its formula, schedules against the original's, optimizers by name."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.lamb import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.backends import variable


def test_excluded_variables_have_neither_decay_nor_trust_ratio():
    value, gradient = np.full(4, 10.0, "float32"), np.full(4, 2.0, "float32")
    steps = {}
    for path in ("dense/kernel", "dense/bias", "LayerNorm/gamma", "seq_relationship/output_bias"):
        weight = variable(path, value)
        Lamb(0.1).apply([gradient], [weight])
        steps[path] = value - weight.numpy()
    plain = 0.1 * (0.1 * gradient) / (np.sqrt(0.001 * gradient**2) + 1e-6)
    for path in list(steps)[1:]:
        np.testing.assert_allclose(steps[path], plain, rtol=1e-5)
    # Adapted: the step is as long as the learning rate times the variable.
    assert np.linalg.norm(steps["dense/kernel"]) == pytest.approx(0.1 * np.linalg.norm(value), 1e-4)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_schedule_is_the_originals_formula(start, power):
    peak, total, warmup = 0.00176, 100, 10
    schedule = WarmupPolynomialDecay(peak, total, warmup, power, start)
    for step in range(0, 121):
        decayed = peak * (1 - min(step, total) / total) ** power
        expected = peak * (step - start) / warmup if step - start < warmup else decayed
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_unknown_optimizer_names_the_known_ones():
    with pytest.raises(InputError, match=r"--optimizer=lars.*lamb.*adamw"):
        create_optimizer("lars", 0.1)


def test_optimizer_survives_its_own_config():
    schedule = WarmupPolynomialDecay(0.1, 10, 2)
    for name in ("lamb", "adamw"):
        optimizer = create_optimizer(name, schedule, bias_correction=True, weight_decay_rate=0.2)
        again = type(optimizer).from_config(optimizer.get_config())
        assert again.get_config() == optimizer.get_config()
