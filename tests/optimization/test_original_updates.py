"""Training steps against those of the original's optimizers and of TensorFlow Addons' LAMB."""

import json

import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.optimizers import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.conftest import GOLDEN
from tests.support.backends import compiled, gradient_function, update_function, variable

START = GOLDEN / "google_tf1_tiny"


def assert_close(actual, expected, name):
    """Within 1e-5 of the variable's largest value: single values may be next to nothing."""
    # The gradient of a key bias is zero but for rounding, and so is all that comes of it.
    size = 1.0 if "key/bias" in name else np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * size, err_msg=name)


def losses(outputs, batch):
    """Return the loss times `scale` of the batch; and all losses under the original's names."""
    objective = PretrainingObjective()
    sums, weights = objective.sums(outputs, batch), objective.weights(batch)
    loss = objective.loss(sums, weights)
    return batch["scale"] * loss, {
        "loss": loss,
        "masked_lm_loss": sums["masked_lm_loss"] / (weights["masked_lm"] + 1e-5),
        "sentence_order_loss": sums["sentence_order_loss"] / weights["sentence_order"],
    }


@pytest.fixture(scope="module")
def model_and_gradients():
    """Return a model and a compiled function that returns its losses and gradients."""
    config = AlbertConfig.from_json_file(str(START / "albert_config.json"))
    model = AlbertForPreTraining(config)
    return model, compiled(gradient_function(model, losses))


# What the loss is multiplied by.
TRAJECTORIES = {"trajectory": 1.0, "trajectory_loss_x0.1": 0.1}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_eight_steps_equal_the_originals(name, model_and_gradients):
    folder = GOLDEN / f"google_{name}_tiny"
    settings = json.loads((folder / "run.json").read_text())
    schedule = WarmupPolynomialDecay(
        settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
    )
    optimizer = create_optimizer(name, schedule, global_clipnorm=settings["clip_norm"])
    model, gradients_of = model_and_gradients
    update = compiled(update_function(optimizer, model.trainable_variables))
    variables = np.load(START / "variables.npz")
    for trajectory, scale in TRAJECTORIES.items():
        for weight in model.weights:
            weight.assign(variables[weight.path])
        for state in optimizer.variables:
            state.assign(np.zeros(state.shape, state.dtype))
        expected = dict(np.load(folder / f"{trajectory}.npz"))
        follow(model, gradients_of, update, schedule, settings, scale, folder, expected)
        if trajectory == "trajectory":
            assert_final_state(model, optimizer, folder)


def follow(model, gradients_of, update, schedule, settings, scale, folder, expected):
    """Take the original's steps and compare everything along the way."""
    weights = {weight.path: weight for weight in model.weights}
    batches = dict(np.load(folder / "batches.npz"))
    clipped = []
    for step in range(settings["steps"]):
        batch = {key: values[step] for key, values in batches.items()}
        values, gradients = gradients_of({**batch, "scale": np.float32(scale)})
        norm = ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in gradients))
        values.update(grad_global_norm=norm, learning_rate=schedule(step))
        for key, value in values.items():
            assert float(value) == pytest.approx(float(expected[key][step]), rel=1e-5), key
        update(gradients)
        clipped.append(float(norm) > settings["clip_norm"])
        for key in expected:
            if key.startswith("after_step/"):
                path = key.removeprefix("after_step/")
                assert_close(weights[path].numpy(), expected[key][step], path)
    # Both ways through the clipping are taken where the loss is scaled down.
    assert any(clipped)
    assert all(clipped) == (scale == 1.0)


def assert_final_state(model, optimizer, folder):
    final, slots = np.load(folder / "final_variables.npz"), np.load(folder / "final_slots.npz")
    for weight, moment, variance in zip(
        model.trainable_variables, optimizer._moments, optimizer._variances, strict=True
    ):
        path = weight.path
        assert_close(weight.numpy(), final[path], path)
        assert_close(moment.numpy(), slots[f"{path}/adam_m"], f"{path}/adam_m")
        assert_close(variance.numpy(), slots[f"{path}/adam_v"], f"{path}/adam_v")


def test_equals_tensorflow_addons_with_bias_correction():
    folder = GOLDEN / "tfa_lamb"
    settings = json.loads((folder / "run.json").read_text())
    arrays = dict(np.load(folder / "trajectory.npz"))
    names = settings["variables"]
    variables = [variable(name, arrays[f"initial/{name}"]) for name in names]
    optimizer = Lamb(
        settings["learning_rate"],
        weight_decay_rate=settings["weight_decay"],
        epsilon=settings["epsilon"],
        bias_correction=True,
        exclude_from_weight_decay=settings["exclude_from_weight_decay"],
    )
    update = update_function(optimizer, variables)
    for step in range(settings["steps"]):
        update([arrays[f"gradients/{name}"][step] for name in names])
        for name, value in zip(names, variables, strict=True):
            assert_close(value.numpy(), arrays[f"after_step/{name}"][step], name)
    for name, moment, variance in zip(names, optimizer._moments, optimizer._variances, strict=True):
        assert_close(moment.numpy(), arrays[f"final_m/{name}"], name)
        # There 1 - beta_2 is taken of the float32 next to 0.999, which makes 1.3e-5 of it.
        one_minus = (1 - np.float32(settings["beta_2"])) / (1 - settings["beta_2"])
        assert_close(variance.numpy() * one_minus, arrays[f"final_v/{name}"], name)
