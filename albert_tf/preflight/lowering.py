"""TensorFlow's training step of one replica, as a program for the compiler of TPUs or GPUs.

    python -m albert_tf.preflight.lowering REQUEST PROGRAM

It runs in a separate process: TensorFlow and JAX each load a runtime, and the memory is released at
the end. REQUEST is a JSON file of `replicas` and the `options` of pretraining; PROGRAM is a
serialized HLO module.
"""

import sys

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.files import read_json, write_bytes
from albert_tf.preflight.options import Request
from albert_tf.training.folder import find_config
from albert_tf.training.pretraining_tasks import find_pretraining_task
from albert_tf.training.run import create_training_step


class _Replica(tf.distribute.ReplicaContext):
    """One of the replicas; gets its number from the device, and reduces over all of them."""

    def __init__(self, strategy: "SliceStrategy"):
        super().__init__(strategy, replica_id_in_sync_group=gen_xla_ops.xla_replica_id())

    def all_reduce(self, reduce_op, value, options=None):
        if reduce_op != tf.distribute.ReduceOp.SUM:
            raise NotImplementedError(f"all_reduce by {reduce_op}")
        everyone = [list(range(self.strategy.num_replicas_in_sync))]
        return tf.nest.map_structure(
            lambda part: gen_xla_ops.xla_all_reduce(
                input=part, group_assignment=everyone, reduce_op="Add", mode="CrossReplica"
            ),
            value,
        )


class SliceStrategy(tf.distribute.OneDeviceStrategy):
    """Stands in for the strategy of the devices: variables here, the program for all replicas."""

    def __init__(self, replicas: int):
        super().__init__("/cpu:0")
        self._replicas = replicas

    @property
    def num_replicas_in_sync(self) -> int:
        return self._replicas

    def run(self, fn, args=(), kwargs=None, options=None):
        """`fn` as one of the replicas runs it."""
        with _Replica(self):
            return fn(*args, **(kwargs or {}))


def lower(asked: Request) -> bytes:
    """Return the program that every replica runs for one training step.

    Options of devices are ignored. The inputs of the serialized HLO module are the replica's share
    of a batch and all variables, which the outputs take the place of.
    """
    options, replicas = asked.options, asked.replicas
    task = find_pretraining_task("sop")
    devices = TensorFlowDevices(
        SliceStrategy(replicas), within_xla=True, jax_kernels=options.attention != "plain"
    )
    engine = TensorFlowEngine(devices)
    with engine.devices.scope():
        model = task.model(find_config(options), dtype=options.dtype_policy)
    step = create_training_step(engine, model, task.objective, options)
    assert isinstance(step, TrainingStep)
    share = engine.devices.per_replica("train_batch_size", options.train_batch_size)
    batch = {
        name: tf.zeros((share, *feature.shape), "int32" if feature.dtype == "int64" else "float32")
        for name, feature in asked.features.items()
    }
    program = tf.function(step._one_step, jit_compile=True)
    return program.experimental_get_compiler_ir(batch)(stage="hlo_serialized")


def main(request: str, program: str) -> None:
    write_bytes(program, lower(read_json(request, Request)))


if __name__ == "__main__":
    main(*sys.argv[1:])
