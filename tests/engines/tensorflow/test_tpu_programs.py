"""Programs for TPUs, as far as they can be tried without one: see `tpu_programs.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.integration
@pytest.mark.slow
def test_every_program_is_traced_under_the_strategy_for_tpus():
    # In a process of its own: the CPU is split before TensorFlow starts.
    process = subprocess.run(
        [sys.executable, "-m", "tests.engines.tensorflow.tpu_programs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
