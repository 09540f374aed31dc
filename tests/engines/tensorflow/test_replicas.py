"""What needs a CPU split into parts, in one process that does so before TensorFlow starts.

`drifting`: a replica that drifts from the others ends the run before it is saved. `replicas`: any
number of replicas and micro-batches computes the same. `tpu_programs`: every program is traced
under the strategy for TPUs.
"""

import pytest

from tests.conftest import run_python

MODULES = (
    "tests.engines.tensorflow.drifting",
    "tests.engines.tensorflow.replicas",
    "tests.engines.tensorflow.tpu_programs",
)
RUN = """
import importlib, os, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
for name in sys.argv[1:]:
    importlib.import_module(name).main()
"""


@pytest.mark.integration
@pytest.mark.slow
def test_on_parts_of_the_cpu():
    process = run_python("-c", RUN, *MODULES)
    assert process.returncode == 0, process.stderr
