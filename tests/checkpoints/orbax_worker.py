"""A process that saves checkpoints of the JAX engine, alone or with others: NAME=VALUE, ..."""

import sys
import warnings

warnings.simplefilter("error")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from albert_tf.checkpoints import OrbaxFolder  # noqa: E402
from albert_tf.checkpoints.saving import Checkpoints  # noqa: E402
from albert_tf.engines.workers import Workers  # noqa: E402
from tests.support.checkpoints import State  # noqa: E402

options = dict(argument.split("=", 1) for argument in sys.argv[1:])
process, width = int(options.get("process", 0)), int(options.get("width", 3))


def all_reduce(values: list[float]) -> list[float]:
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(np.asarray(values)).sum(0).tolist()


workers = Workers()
if coordinator := options.get("coordinator"):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, 2, process)
    workers = Workers(["127.0.0.1:1", "127.0.0.1:2"], process, all_reduce)

mesh = Mesh(np.array(jax.devices()), ("data",))


def place(value: np.ndarray, *spec: str) -> jax.Array:
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    return jax.make_array_from_callback(value.shape, sharding, value.__getitem__)


def tree(step: int) -> dict:
    """Return weights are replicated, moments are sharded over all devices."""
    value = np.float32(step)
    shapes = {"bert/pooler/dense/kernel": (4, width), "bert/pooler/dense/bias": (width,)}
    params = {path: np.full(shape, value) for path, shape in shapes.items()}
    return {
        "params": {path: place(array) for path, array in params.items()},
        "optimizer": {
            f"lamb/{path}_m": place(array + np.float32(0.5), *(["data"] * (array.ndim == 2)))
            for path, array in params.items()
        },
        "step": place(np.asarray(step, np.int32)),
    }


state = State(tree(0))
folder = OrbaxFolder(options["folder"])
with Checkpoints(folder, state, workers, int(options.get("keep", 5))) as checkpoints:
    for step in map(int, options["steps"].split(",")):
        state.tree = tree(step)
        checkpoints.save()
        checkpoints.wait()
        print(f"saved {step}", flush=True)
if options.get("coordinator"):
    expected, state.tree = tree(step), tree(0)
    assert checkpoints.restore_latest()

    def same(one: np.ndarray, other: jax.Array) -> bool:
        return all(np.array_equal(one[part.index], part.data) for part in other.addressable_shards)

    assert jax.tree.all(jax.tree.map(same, state.tree, expected))
    print(f"restored {int(state.tree['step'])}", flush=True)
    jax.distributed.shutdown()
if "tensorflow" in sys.modules:
    sys.exit("TensorFlow was imported")
