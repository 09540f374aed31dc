"""A replica that drifts from the others is noticed: see `drifting.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.integration
@pytest.mark.slow
def test_a_replica_that_drifts_ends_the_run_before_it_is_saved():
    # In a process of its own: the CPU is split before TensorFlow starts.
    process = subprocess.run(
        [sys.executable, "-m", "tests.engines.tensorflow.drifting"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
