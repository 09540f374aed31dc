"""The JAX engine's operations against the plain ones: outputs and all gradients."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason="JAX is not installed (the extra `jax`)"
    ),
]


def measure(dtype):
    # In a process of its own, whose Keras uses JAX.
    process = subprocess.run(
        [sys.executable, "-m", "tests.engines.jax.compare_kernels", dtype],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def test_in_float32_they_are_the_same_and_dropout_is_random():
    measured = measure("float32")
    for name, errors in measured["errors"].items():
        assert max(errors["engine"]) < 1e-6, name
    masks = measured["dropout"]
    assert masks["again"]
    assert masks["gradient"]
    assert masks["kept"] == pytest.approx(1 / 0.9)
    # Of 512,000 elements: within five standard deviations.
    assert masks["dropped"] == pytest.approx(0.1, abs=0.0021)
    assert masks["next site"] == pytest.approx(0.01, abs=0.0007)
    assert masks["next step"] == pytest.approx(0.01, abs=0.0007)


@pytest.mark.slow
def test_in_bfloat16_they_are_as_close_as_the_plain_ones():
    for name, errors in measure("bfloat16")["errors"].items():
        for ours, plain in zip(errors["engine"], errors["plain"], strict=True):
            assert ours < 1.5 * plain + 1e-6, name
