"""Training, predictions, results, saved folders and exports of every kind of task agree."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import KERAS_ON_JAX, ROOT
from tests.support.kinds_of_tasks import CASES, check


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_on_tensorflow(tmp_path, name):
    check(tmp_path, name)


@pytest.mark.slow
def test_on_jax_without_tensorflow(peers, tmp_path):
    process = subprocess.run(
        [peers, "-m", "tests.support.kinds_of_tasks", str(tmp_path), "classification"],
        cwd=ROOT,
        env={**os.environ, **KERAS_ON_JAX},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr[-5000:]
    assert process.stdout.splitlines()[-1:] == ["equal"]
