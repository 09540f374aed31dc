"""Training on JAX ends where training on TensorFlow ends, and where the original's does."""

from __future__ import annotations

import dataclasses
import json

import keras
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from tests.conftest import GOLDEN
from tests.engines.jax.training_runs import Request, run
from tests.support.tiny import CONFIG, batch

pytest.importorskip("jax", reason="JAX is not installed (the extra `jax`)")
pytest.importorskip("grain", reason="grain is not installed (the extra `jax`)")
pytestmark = pytest.mark.integration

STEPS, BATCH = 20, 16
# AdamW makes an update of full size of every gradient, however small, that is, of rounding: its
# rate is as small as in practice.
RATES = {"lamb": 0.01, "adamw": 0.001}
WITHOUT_DROPOUT = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
SHARING = {
    "all": WITHOUT_DROPOUT,
    "none": dataclasses.replace(WITHOUT_DROPOUT, num_hidden_groups=2, parameter_sharing="none"),
    "attention": dataclasses.replace(
        WITHOUT_DROPOUT, num_hidden_groups=2, parameter_sharing="attention"
    ),
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
    from albert_tf.engines.tensorflow.devices import TensorFlowDevices
    from albert_tf.engines.tensorflow.engine import TensorFlowEngine
    from albert_tf.modeling.heads import AlbertForPreTraining
    from albert_tf.modeling.losses import PretrainingObjective
    from albert_tf.optimization import create_optimizer

    keras.utils.set_random_seed(7)
    step = TensorFlowEngine(TensorFlowDevices()).create_training_step(
        AlbertForPreTraining(config),
        create_optimizer(optimizer, RATES[optimizer]),
        PretrainingObjective(),
    )
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


def weights_of(results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name.removeprefix("params/"): values
        for name, values in results.items()
        if name.startswith("params/")
    }


# Which layers share parameters makes no difference to AdamW, which treats each variable alone.
CASES = [*((sharing, "lamb") for sharing in SHARING), ("all", "adamw"), ("none", "adamw")]


@pytest.mark.slow
def test_twenty_steps_equal_those_on_tensorflow(tmp_path):
    batches, expected, requests = uneven_batches(), [], []
    np.savez(tmp_path / "batches.npz", **batches)
    for sharing, optimizer in CASES:
        folder = tmp_path / f"{sharing}-{optimizer}"
        folder.mkdir()
        weights = train_on_tensorflow(SHARING[sharing], optimizer, batches, folder)
        request = Request(
            str(folder / "one.npz"),
            dataclasses.asdict(SHARING[sharing]),
            str(tmp_path / "batches.npz"),
            str(folder / "initial.npz"),
            optimizer,
            RATES[optimizer],
        )
        devices = dataclasses.replace(
            request,
            output=str(folder / "devices.npz"),
            replicas=4,
            options={"micro_batches": 2, "remat": True},
            shard_optimizer_state=True,
        )
        requests += [request, devices]
        expected += [weights, weights]
    for request, results, weights in zip(requests, run(tmp_path, *requests), expected, strict=True):
        assert not results["has_tensorflow"]
        assert results["history/finite"].tolist() == [1, 0] + [1] * (STEPS - 2)
        assert largest_difference(weights_of(results), weights) < 1e-4, request.output


def test_eight_steps_equal_the_originals(tmp_path):
    requests = []
    for optimizer in ("lamb", "adamw"):
        folder = GOLDEN / f"google_{optimizer}_tiny"
        settings = json.loads((folder / "run.json").read_text())
        config = AlbertConfig.from_json_file(str(GOLDEN / "google_tf1_tiny" / "albert_config.json"))
        rate = {
            "learning_rate": settings["init_lr"],
            "num_train_steps": settings["num_train_steps"],
            "num_warmup_steps": settings["num_warmup_steps"],
        }
        requests.append(
            Request(
                str(tmp_path / f"{optimizer}.npz"),
                dataclasses.asdict(config),
                str(folder / "batches.npz"),
                str(GOLDEN / "google_tf1_tiny" / "variables.npz"),
                optimizer,
                rate,
                options={"clip_norm": settings["clip_norm"]},
            )
        )
    for request, results in zip(requests, run(tmp_path, *requests), strict=True):
        folder = GOLDEN / f"google_{request.optimizer}_tiny"
        expected = dict(np.load(folder / "trajectory.npz"))
        steps = len(results["history/loss"])
        np.testing.assert_allclose(results["history/loss"], expected["loss"][:steps], rtol=1e-5)
        np.testing.assert_allclose(
            results["history/gradient_norm"], expected["grad_global_norm"][:steps], rtol=1e-5
        )
        final = dict(np.load(folder / "final_variables.npz"))
        weights = weights_of(results)
        for path, values in weights.items():
            tolerance = 1e-5 * max(np.abs(final[path]).max(), 1e-3)
            np.testing.assert_allclose(values, final[path], rtol=1e-5, atol=tolerance, err_msg=path)


@pytest.mark.slow
def test_devices_and_micro_batches_do_not_change_what_is_computed(tmp_path):
    np.savez(tmp_path / "batches.npz", **uneven_batches())
    requests = [
        Request(
            str(tmp_path / f"{replicas}-{micro_batches}-{sharded}.npz"),
            dataclasses.asdict(WITHOUT_DROPOUT),
            str(tmp_path / "batches.npz"),
            replicas=replicas,
            options={"micro_batches": micro_batches},
            shard_optimizer_state=sharded,
        )
        for replicas, micro_batches, sharded in (
            (1, 1, False),
            (1, 4, False),
            (2, 1, False),
            (4, 4, False),
            (8, 1, True),
        )
    ]
    first, *others = run(tmp_path, *requests)
    for other in others:
        for kind in ("params/", "adam_m", "adam_v"):
            # All variables of a kind together: some, such as biases of keys, are rounding alone.
            names = [name for name in first if kind in name]
            found, expected = (
                np.concatenate([results[name].ravel() for name in names])
                for results in (other, first)
            )
            limit = 1e-5 * min(1.0, np.abs(expected).max())
            np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
