"""Training on JAX ends where training on TensorFlow ends; test_step.py has the original's.

Run as a program with a file of requests, in JSON, it makes these runs on JAX.
"""

import dataclasses
import json
import pathlib
import sys
from typing import Any

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from tests.conftest import KERAS_ON_JAX, run_python
from tests.support.tiny import WITHOUT_DROPOUT, batch

pytest.importorskip("jax", reason="JAX is not installed (the extra `jax`)")
pytest.importorskip("grain", reason="grain is not installed (the extra `jax`)")
pytestmark = pytest.mark.integration


@dataclasses.dataclass(frozen=True)
class Request:
    """A run of some steps, whose results are written to an `.npz` file.

    Initial weights and batches, `[steps, batch, ...]`, are read from such files. The learning rate
    is constant.
    """

    output: str
    config: dict[str, Any]
    batches: str
    weights: str | None = None
    optimizer: str = "lamb"
    learning_rate: float = 0.01
    replicas: int = 1
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    shard_optimizer_state: bool = False
    dtype: str = "float32"


def run(folder: pathlib.Path, *requests: Request) -> list[dict[str, np.ndarray]]:
    """Make the runs in one process, as loading JAX takes long; return what each of them wrote."""
    path = folder / "requests.json"
    path.write_text(json.dumps([dataclasses.asdict(request) for request in requests]))
    completed = run_python("-m", "tests.engines.jax.test_same_results", path, **KERAS_ON_JAX)
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
    from albert_tf.optimization import create_optimizer
    from tests.support.batches import ListStream

    devices = jax.sharding.Mesh(mesh.devices[: request.replicas], mesh.axis_names)
    engine = JaxEngine(JaxDevices(devices, shard_optimizer_state=request.shard_optimizer_state))
    engine.set_random_seed(7)
    model = AlbertForPreTraining(AlbertConfig(**request.config), dtype=request.dtype)
    if request.weights:
        initial = np.load(request.weights)
        for weight in model.weights:
            weight.assign(initial[weight.path])
    optimizer = create_optimizer(request.optimizer, request.learning_rate)
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


STEPS, BATCH = 8, 16
# AdamW makes an update of full size of every gradient, however small, that is, of rounding: its
# rate is as small as in practice.
RATES = {"lamb": 0.01, "adamw": 0.001}
SHARING = {
    "all": WITHOUT_DROPOUT,
    "ffn": dataclasses.replace(WITHOUT_DROPOUT, num_hidden_groups=2, parameter_sharing="ffn"),
}


def uneven_batches(steps: int = STEPS) -> dict[str, np.ndarray]:
    """Return batches `[steps, batch, ...]`, one of them with weights of NaN."""
    data = [batch(BATCH, seed=number) for number in range(steps)]
    data[1]["masked_lm_weights"][0] = np.nan
    return {name: np.stack([examples[name] for examples in data]) for name in data[0]}


def train_on_tensorflow(config: AlbertConfig, optimizer: str, batches, folder):
    """Train and return the final weights by path; write the initial ones to `folder`."""
    import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import ending_at_once
    from tests.engines.tensorflow.test_step import create_step

    step = create_step(config, optimizer, RATES[optimizer])
    np.savez(folder / "initial.npz", **{w.path: w.numpy() for w in step.model.weights})
    dataset = ending_at_once(tf.data.Dataset.from_tensor_slices(batches))
    results = step(iter(dataset), STEPS)
    assert results.history["finite"].tolist() == [1, 0] + [1] * (STEPS - 2)
    return {weight.path: weight.numpy() for weight in step.model.weights}


def largest_difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Of any weight, relative to the largest value of its variable."""
    assert found.keys() == expected.keys()
    differences = []
    for path, values in expected.items():
        difference = np.abs(found[path] - values).max()
        # Biases of keys do not change the softmax: their gradient is rounding, and nothing else.
        is_noise = path.endswith("self/key/bias")
        differences.append(difference if is_noise else difference / np.abs(values).max())
    return max(differences)


# How layers share parameters, the optimizer, and the devices. Sharing makes no difference to AdamW,
# which treats each variable alone.
CASES = (("all", "lamb", 1), ("ffn", "adamw", 4))
SPLIT: dict[str, Any] = {
    "options": {"micro_batches": 2, "remat": True}, "replicas": 8, "shard_optimizer_state": True
}  # fmt: skip


@pytest.mark.slow
def test_steps_equal_those_on_tensorflow_whatever_the_devices(tmp_path):
    batches, expected, requests = uneven_batches(), [], []
    np.savez(tmp_path / "batches.npz", **batches)
    for sharing, optimizer, replicas in CASES:
        folder = tmp_path / sharing
        folder.mkdir()
        expected.append(train_on_tensorflow(SHARING[sharing], optimizer, batches, folder))
        several = {"options": {"micro_batches": 2}, "shard_optimizer_state": True}
        requests.append(
            Request(
                str(folder / "results.npz"),
                dataclasses.asdict(SHARING[sharing]),
                str(tmp_path / "batches.npz"),
                str(folder / "initial.npz"),
                optimizer,
                RATES[optimizer],
                replicas,
                **(several if replicas > 1 else {}),
            )
        )
    requests.append(dataclasses.replace(requests[0], output=str(tmp_path / "split.npz"), **SPLIT))
    results = run(tmp_path, *requests)
    for request, found, weights in zip(requests, results, expected, strict=False):
        assert not found["has_tensorflow"]
        assert found["history/finite"].tolist() == [1, 0] + [1] * (STEPS - 2)
        names = [name for name in found if name.startswith("params/")]
        trained = {name.removeprefix("params/"): found[name] for name in names}
        assert largest_difference(trained, weights) < 1e-4, request.output
    for kind in ("params/", "adam_m", "adam_v"):
        # All variables of a kind together: some, such as biases of keys, are rounding alone.
        names = [name for name in results[0] if kind in name]
        values, same = (
            np.concatenate([each[name].ravel() for name in names])
            for each in (results[-1], results[0])
        )
        limit = 1e-5 * min(1.0, np.abs(same).max())
        np.testing.assert_allclose(values, same, rtol=0, atol=limit)


if __name__ == "__main__":
    main(*sys.argv[1:])
