"""Trains on JAX, in a process of its own, as a file of requests asks.

    KERAS_BACKEND=jax python -m tests.engines.jax.training_runs REQUESTS

REQUESTS is JSON: a list of objects with the fields of `Request`. All requests run in one process,
since loading JAX takes longer than a tiny model does.
"""

import dataclasses
import json
import pathlib
import sys
from typing import Any

import numpy as np

from tests.conftest import KERAS_ON_JAX, run_python


@dataclasses.dataclass(frozen=True)
class Request:
    """A run of some steps, whose results are written to an `.npz` file.

    Initial weights and batches, `[steps, batch, ...]`, are read from such files. The learning rate
    is constant, or arguments of a warm-up with polynomial decay.
    """

    output: str
    config: dict[str, Any]
    batches: str
    weights: str | None = None
    optimizer: str = "lamb"
    learning_rate: float | dict[str, Any] = 0.01
    replicas: int = 1
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    shard_optimizer_state: bool = False
    dtype: str = "float32"


def run(folder: pathlib.Path, *requests: Request) -> list[dict[str, np.ndarray]]:
    """Make the runs in a process of their own, and return what each of them wrote."""
    path = folder / "requests.json"
    path.write_text(json.dumps([dataclasses.asdict(request) for request in requests]))
    completed = run_python("-m", "tests.engines.jax.training_runs", path, **KERAS_ON_JAX)
    assert completed.returncode == 0, completed.stderr[-5000:]
    return [dict(np.load(request.output)) for request in requests]


def batches_of(path: str) -> list[dict[str, np.ndarray]]:
    stacked = dict(np.load(path))
    steps = len(next(iter(stacked.values())))
    return [{name: values[step] for name, values in stacked.items()} for step in range(steps)]


def train(request: Request, mesh) -> None:
    """Run the steps and write what they end in."""
    import jax

    from albert_tf.config import AlbertConfig
    from albert_tf.engines.jax.devices import JaxDevices
    from albert_tf.engines.jax.engine import JaxEngine
    from albert_tf.engines.steps import StepOptions
    from albert_tf.modeling.heads import AlbertForPreTraining
    from albert_tf.modeling.losses import PretrainingObjective
    from albert_tf.optimization import create_optimizer, create_schedule
    from tests.support.batches import ListStream

    devices = jax.sharding.Mesh(mesh.devices[: request.replicas], mesh.axis_names)
    engine = JaxEngine(JaxDevices(devices, shard_optimizer_state=request.shard_optimizer_state))
    engine.set_random_seed(7)
    model = AlbertForPreTraining(AlbertConfig(**request.config), dtype=request.dtype)
    if request.weights:
        initial = np.load(request.weights)
        for weight in model.weights:
            weight.assign(initial[weight.path])
    rate = request.learning_rate
    if isinstance(rate, dict):
        rate = create_schedule("polynomial", **rate)
    optimizer = create_optimizer(request.optimizer, rate)
    step = engine.training_step(
        model, optimizer, PretrainingObjective(), engine.devices, StepOptions(**request.options)
    )
    step.tree = jax.device_get(step.tree)  # as of a checkpoint
    where = jax.tree.map(lambda array: array.sharding, step.tree)
    assert where == step.shardings
    batches = batches_of(request.batches)
    results = step(engine.iterate(ListStream(batches)), len(batches))
    step.check_replicas()
    state = jax.device_get(step.tree)
    np.savez(
        request.output,
        **{f"params/{path}": value for path, value in state["params"].items()},
        **{f"optimizer/{path}": value for path, value in state["optimizer"].items()},
        **{f"history/{name}": values for name, values in results.history.items()},
        **{f"scalars/{name}": value for name, value in results.scalars.items()},
        step=state["step"],
        has_tensorflow="tensorflow" in sys.modules,
    )


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        requests = [Request(**fields) for fields in json.load(file)]
    from albert_tf.engines.device_options import DeviceOptions
    from albert_tf.engines.jax.devices import create_devices

    most = max(request.replicas for request in requests)
    mesh = create_devices(DeviceOptions(engine="jax", num_replicas=most)).mesh
    for request in requests:
        train(request, mesh)


if __name__ == "__main__":
    main(*sys.argv[1:])
