"""Training steps against those that the original optimizers made."""

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


def at_the_start(optimizer_name: str, settings: dict, micro_batches: int) -> TrainingStep:
    """Return a step with the original's initial weights."""
    config = AlbertConfig.from_json_file(str(START / "albert_config.json"))
    schedule = WarmupPolynomialDecay(
        settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
    )
    step = TrainingStep(
        AlbertForPreTraining(config),
        create_optimizer(optimizer_name, schedule),
        PretrainingObjective(),
        TensorFlowDevices(),
        StepOptions(micro_batches=micro_batches, clip_norm=settings["clip_norm"]),
    )
    variables = np.load(START / "variables.npz")
    for weight in step.model.weights:
        weight.assign(variables[weight.path])
    return step


@pytest.mark.integration
@pytest.mark.parametrize(
    ("optimizer_name", "micro_batches"),
    [("lamb", 1), pytest.param("adamw", 2, marks=pytest.mark.slow)],
)
def test_eight_steps_equal_the_originals(optimizer_name, micro_batches):
    folder = GOLDEN / f"google_{optimizer_name}_tiny"
    settings = json.loads((folder / "run.json").read_text())
    step = at_the_start(optimizer_name, settings, micro_batches)
    batches = dict(np.load(folder / "batches.npz"))
    expected = dict(np.load(folder / "trajectory.npz"))
    iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
    for number in range(settings["steps"]):
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
