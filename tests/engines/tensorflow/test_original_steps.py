"""Training steps against those that the original optimizers made."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.steps import StepOptions
from albert_tf.engines.tensorflow.batches import ending_at_once
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.conftest import GOLDEN

START = GOLDEN / "google_tf1_tiny"


def load_variables(model, path):
    variables = np.load(path)
    for weight in model.weights:
        weight.assign(variables[weight.path])


def settings_of(optimizer_name: str) -> dict:
    return json.loads((GOLDEN / f"google_{optimizer_name}_tiny" / "run.json").read_text())


@functools.cache
def built_once(optimizer_name: str, micro_batches: int) -> TrainingStep:
    settings, config = settings_of(optimizer_name), START / "albert_config.json"
    schedule = WarmupPolynomialDecay(
        settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
    )
    return TrainingStep(
        AlbertForPreTraining(AlbertConfig.from_json_file(str(config))),
        create_optimizer(optimizer_name, schedule),
        PretrainingObjective(),
        TensorFlowDevices(),
        StepOptions(micro_batches=micro_batches, clip_norm=settings["clip_norm"]),
    )


def at_the_start(optimizer_name: str, micro_batches: int) -> TrainingStep:
    """Return a step with the original's initial weights; tests share one, as tracing takes long."""
    step = built_once(optimizer_name, micro_batches)
    load_variables(step.model, START / "variables.npz")
    for variable in step.optimizer.variables:
        variable.assign(tf.zeros(variable.shape, variable.dtype))
    return step


@pytest.mark.integration
@pytest.mark.parametrize(
    ("optimizer_name", "micro_batches"),
    [("lamb", 1), pytest.param("adamw", 2, marks=pytest.mark.slow)],
)
def test_eight_steps_equal_the_originals(optimizer_name, micro_batches):
    folder = GOLDEN / f"google_{optimizer_name}_tiny"
    step = at_the_start(optimizer_name, micro_batches)
    batches = dict(np.load(folder / "batches.npz"))
    expected = dict(np.load(folder / "trajectory.npz"))
    iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
    for number in range(settings_of(optimizer_name)["steps"]):
        results = step(iterator, 1)
        assert results.scalars["learning_rate"] == pytest.approx(
            expected["learning_rate"][number], 1e-6
        )
        assert results.scalars["gradient_norm"] == pytest.approx(
            expected["grad_global_norm"][number], 1e-5
        )
        loss = step.objective.loss(results.sums, results.weights)
        assert float(loss) == pytest.approx(expected["loss"][number], 1e-5)

    final, slots = np.load(folder / "final_variables.npz"), np.load(folder / "final_slots.npz")
    for weight, moment, variance in zip(
        step.model.weights, step.optimizer._moments, step.optimizer._variances, strict=True
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
    batches = dict(np.load(GOLDEN / "google_lamb_tiny" / "batches.npz"))
    weights = []
    for calls in ([1] * 6, [4, 2]):
        step = at_the_start("lamb", 1)
        iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
        for count in calls:
            step(iterator, count)
        assert int(step.optimizer.iterations.numpy()) == 6
        weights.append([weight.numpy() for weight in step.model.weights])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
