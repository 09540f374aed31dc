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


def compare(dtype):
    # In a process of its own, whose Keras uses JAX.
    process = subprocess.run(
        [sys.executable, "-m", "tests.engines.jax.compare_ops", dtype],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def test_in_float32_they_are_the_same():
    for name, errors in compare("float32").items():
        assert max(errors["engine"]) < 1e-6, name


@pytest.mark.slow
def test_in_bfloat16_they_are_as_close_as_the_plain_ones():
    for name, errors in compare("bfloat16").items():
        for ours, plain in zip(errors["engine"], errors["plain"], strict=True):
            assert ours < 1.5 * plain + 1e-6, name
