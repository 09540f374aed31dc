"""Training, predictions, results and saved folders of text models equal those of the commands."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import KERAS_ON_JAX, ROOT
from tests.support.as_command import CHECKS


@pytest.mark.slow
@pytest.mark.parametrize("check", [*CHECKS])
def test_on_tensorflow(tmp_path, check):
    CHECKS[check](tmp_path)


@pytest.mark.slow
def test_on_jax_without_tensorflow(peers, tmp_path):
    process = subprocess.run(
        [peers, "-m", "tests.support.as_command", str(tmp_path), "classification"],
        cwd=ROOT,
        env={**os.environ, **KERAS_ON_JAX},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr[-5000:]
    assert process.stdout.splitlines()[-1:] == ["equal"]
