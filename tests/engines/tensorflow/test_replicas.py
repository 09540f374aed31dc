"""What needs a CPU split into parts, in processes that do so before TensorFlow starts.

`drifting`: a replica that drifts from the others ends the run before it is saved. `tpu_programs`:
every program is traced under the strategy for TPUs.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("module", ["drifting", "tpu_programs"])
def test_on_parts_of_the_cpu(module):
    process = subprocess.run(
        [sys.executable, "-m", f"tests.engines.tensorflow.{module}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
