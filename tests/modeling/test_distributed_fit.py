"""`fit` on several devices of JAX gives the weights of one device."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.conftest import KERAS_ON_JAX, ROOT


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_two_devices_train_as_one():
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.distributed_fit"],
        cwd=ROOT,
        env={
            **os.environ,
            **KERAS_ON_JAX,
            "JAX_NUM_CPU_DEVICES": "2",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["DataParallel", "ModelParallel"]
