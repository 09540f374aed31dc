"""Compiles a training step of the JAX engine for a TPU slice or GPUs that need not exist.

    python -m albert_tf.preflight.jax_compiling REQUEST DEVICES TRIPS RESULT

REQUEST is a JSON file of the `options` of pretraining, TRIPS the number of micro-batches, RESULT a
JSON file with the fields of `Compiled`. It runs in a separate process because the compiler may
crash and uses gigabytes of memory. Building the program and compiling it are one process, unlike
those of the TensorFlow engine, since a program of JAX names the devices that it is for.
"""

import sys
from collections.abc import Sequence

# First, since it has JAX look for no TPU on this machine or in Cloud metadata.
from albert_tf.preflight.compiling import find_devices, measure, write_result  # isort: skip

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from albert_tf.engines.jax.devices import DATA, JaxDevices
from albert_tf.engines.jax.engine import JaxEngine
from albert_tf.engines.jax.step import TrainingStep
from albert_tf.files import read_json
from albert_tf.hardware import Slice
from albert_tf.preflight.bounds import Compiled
from albert_tf.preflight.gpus import Gpus, parse_devices
from albert_tf.preflight.options import Request
from albert_tf.training.folder import find_config
from albert_tf.training.pretraining_tasks import find_pretraining_task
from albert_tf.training.run import create_training_step


def lower(asked: Request, devices: Sequence[jax.Device]) -> jax.stages.Lowered:
    """Return the program of one training step over all devices of a slice, which need not exist."""
    options = asked.options
    mesh = Mesh(np.array(devices), (DATA,))
    devices_of_slice = JaxDevices(
        mesh, attention=options.attention, shard_optimizer_state=options.shard_optimizer_state
    )
    engine = JaxEngine(devices_of_slice)
    task = find_pretraining_task("sop")
    with engine.devices.scope():
        model = task.model(find_config(options), dtype=options.dtype_policy)
    step = create_training_step(engine, model, task.objective, options)
    assert isinstance(step, TrainingStep)

    def shape(variable: keras.Variable) -> jax.ShapeDtypeStruct:
        sharding = step._sharding_of(variable)
        return jax.ShapeDtypeStruct(variable.shape, variable.dtype, sharding=sharding)

    batch = {
        name: jax.ShapeDtypeStruct(
            (options.train_batch_size, *feature.shape),
            "int32" if feature.dtype == "int64" else "float32",
            sharding=NamedSharding(mesh, PartitionSpec(DATA)),
        )
        for name, feature in asked.features.items()
    }
    return step.program.lower(step._mapped(shape), batch)


def compile_step(asked: Request, where: Slice | Gpus, trips: int) -> Compiled:
    """Compile the training step for all devices."""
    devices, settings = find_devices(where)
    lowered = lower(asked, devices)
    return measure(
        lambda: lowered.compile(compiler_options=settings).runtime_executable(),
        lowered.compiler_ir("stablehlo"),
        where,
        trips,
    )


def main(request: str, devices: str, trips: str, result: str) -> None:
    asked = read_json(request, Request)
    write_result(compile_step(asked, parse_devices(devices), int(trips)), result)


if __name__ == "__main__":
    main(*sys.argv[1:])
