"""Fine-tuning is the same on any number of replicas."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.integration
@pytest.mark.slow
def test_replicas_and_micro_batches_do_not_change_what_is_learned():
    # A process of its own: devices are split before TensorFlow starts.
    completed = subprocess.run(
        [sys.executable, "-m", "tests.support.replicas"], capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
