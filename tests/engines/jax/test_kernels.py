"""The JAX engine's operations against the plain ones: outputs and all gradients."""

import importlib.util
import json

import pytest

from tests.conftest import KERAS_ON_JAX, run_python


@pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed (the extra `jax`)"
)
def test_they_compute_what_the_plain_ones_do_and_dropout_is_random():
    # In a process of its own, whose Keras uses JAX and compiles as users do: without optimizations,
    # XLA's tanh is off by 2e-7 near 1, where the gradient of the GELU is 3e-6 from that in float64.
    variables = {**KERAS_ON_JAX, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    process = run_python("-m", "tests.engines.jax.compare_kernels", **variables)
    assert process.returncode == 0, process.stderr
    measured = json.loads(process.stdout)
    for name, errors in measured["float32"].items():
        assert max(errors["engine"]) < 1e-6, name
    for name, errors in measured["bfloat16"].items():
        for ours, plain in zip(errors["engine"], errors["plain"], strict=True):
            assert ours < 1.5 * plain + 1e-6, name
    masks = measured["dropout"]
    assert masks["again"]
    assert masks["gradient"]
    assert masks["kept"] == pytest.approx(1 / 0.9)
    # Of 512,000 elements: within five standard deviations.
    assert masks["dropped"] == pytest.approx(0.1, abs=0.0021)
    assert masks["next site"] == pytest.approx(0.01, abs=0.0007)
    assert masks["next step"] == pytest.approx(0.01, abs=0.0007)
