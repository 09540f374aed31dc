"""albert_tf with --engine=jax: the training step as the commands run it, without TensorFlow."""

import jax
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DTYPE_POLICIES, DeviceOptions
from albert_tf.engines.jax.engine import JaxEngine
from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations import matrix_products_jax
from benchmarks.implementations.workload import Workload

device = matrix_products_jax.device


def prepare(workload: Workload, attention: str):
    """Return a function that runs a number of steps; `attention` is that of `DeviceOptions`."""
    if workload.task != "pretraining":
        raise InputError(f"task {workload.task!r}: only pretraining is available on JAX")
    engine = JaxEngine.create(
        DeviceOptions(engine="jax", strategy="one_device", attention=attention)
    )
    engine.set_random_seed(0)
    model = AlbertForPreTraining(
        AlbertConfig(**workload.config), dtype=DTYPE_POLICIES[workload.dtype]
    )
    step = engine.training_step(
        model, create_optimizer("lamb", 1e-4), PretrainingObjective(), engine.devices
    )
    batch = jax.device_put({name: np.asarray(rows) for name, rows in workload.batch().items()})

    def run(count: int) -> None:
        state = step.tree
        for _ in range(count):
            state, _ = step.program(state, batch)
        step.tree = jax.block_until_ready(state)

    return run
