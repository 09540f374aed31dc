"""Training steps against those that the original optimizers made."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.tensorflow.pipelines import ending_at_once
from albert_tf.engines.tensorflow.step import TrainStep
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.conftest import GOLDEN


def load_variables(model, path):
    variables = np.load(path)
    for weight in model.weights:
        weight.assign(variables[weight.path])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("optimizer_name", "micro_batches"),
    [
        ("lamb", 1),
        ("adamw", 2),
        pytest.param("lamb", 2, marks=pytest.mark.slow),
        pytest.param("adamw", 1, marks=pytest.mark.slow),
    ],
)
def test_eight_steps_equal_the_originals(optimizer_name, micro_batches):
    start = GOLDEN / "google_tf1_tiny"
    folder = GOLDEN / f"google_{optimizer_name}_tiny"
    settings = json.loads((folder / "run.json").read_text())
    model = AlbertForPreTraining(AlbertConfig.from_json_file(str(start / "albert_config.json")))
    load_variables(model, start / "variables.npz")
    schedule = WarmupPolynomialDecay(
        settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
    )
    step = TrainStep(
        model,
        create_optimizer(optimizer_name, schedule),
        PretrainingObjective(),
        tf.distribute.get_strategy(),
        micro_batches=micro_batches,
        clip_norm=settings["clip_norm"],
    )
    batches = dict(np.load(folder / "batches.npz"))
    expected = dict(np.load(folder / "trajectory.npz"))
    iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
    for number in range(settings["steps"]):
        results = step(iterator, tf.constant(1))
        assert float(results["learning_rate"]) == pytest.approx(
            expected["learning_rate"][number], 1e-6
        )
        assert float(results["gradient_norm"]) == pytest.approx(
            expected["grad_global_norm"][number], 1e-5
        )
        loss = step.objective.loss(results["sums"], results["weights"])
        assert float(loss) == pytest.approx(expected["loss"][number], 1e-5)

    final, slots = np.load(folder / "final_variables.npz"), np.load(folder / "final_slots.npz")
    for weight, moment, variance in zip(
        model.weights, step.optimizer._moments, step.optimizer._variances, strict=True
    ):
        # Relative to the variable's own size: single values may be near zero.
        for actual, wanted in (
            (weight, final[weight.path]),
            (moment, slots[f"{weight.path}/adam_m"]),
            (variance, slots[f"{weight.path}/adam_v"]),
        ):
            tolerance = 1e-5 * max(np.abs(wanted).max(), 1e-3)
            np.testing.assert_allclose(
                actual.numpy(), wanted, rtol=1e-5, atol=tolerance, err_msg=actual.path
            )


@pytest.mark.integration
def test_several_steps_in_one_call_are_the_same_steps():
    start = GOLDEN / "google_tf1_tiny"
    batches = dict(np.load(GOLDEN / "google_lamb_tiny" / "batches.npz"))
    weights = []
    for calls in ([1] * 6, [4, 2]):
        model = AlbertForPreTraining(AlbertConfig.from_json_file(str(start / "albert_config.json")))
        load_variables(model, start / "variables.npz")
        optimizer = create_optimizer("lamb", 0.001)
        step = TrainStep(model, optimizer, PretrainingObjective(), tf.distribute.get_strategy())
        iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
        for count in calls:
            step(iterator, tf.constant(count))
        assert int(optimizer.iterations.numpy()) == 6
        weights.append([weight.numpy() for weight in model.weights])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
