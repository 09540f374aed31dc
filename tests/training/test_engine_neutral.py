"""What all engines share runs without TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PACKAGES = (
    "albert_tf.training",
    "albert_tf.modeling",
    "albert_tf.optimization",
    "albert_tf.input",
)
MODULES = ("albert_tf.engines.base", "albert_tf.engines.registry", "albert_tf.training.log")

# Imports every module of the packages and writes a log, then looks for TensorFlow.
CODE = f"""
import importlib, pkgutil, sys
for name in {PACKAGES}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
for name in {MODULES}:
    importlib.import_module(name)

from albert_tf.training.log import EventWriter
writer = EventWriter(sys.argv[1])
writer.add_scalars(3, {{"loss": 0.5}})
writer.close()
sys.exit(", ".join(name for name in sys.modules if name.split(".")[0] == "tensorflow") or None)
"""


@pytest.mark.integration
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_what_engines_share_never_imports_tensorflow(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    import tensorflow as tf  # in this process only, as the reader that TensorBoard has

    (path,) = tmp_path.iterdir()
    version, event = tf.compat.v1.train.summary_iterator(str(path))
    assert version.file_version == "brain.Event:2"
    (value,) = event.summary.value
    assert (event.step, value.tag, tf.make_ndarray(value.tensor).item()) == (3, "loss", 0.5)
    assert value.metadata.plugin_data.plugin_name == "scalars"
