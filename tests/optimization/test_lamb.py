"""LAMB against TensorFlow Addons' and against the formula; schedules against the original's."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.lamb import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay


class _Named(keras.layers.Layer):
    """A variable whose path is `name` split at slashes."""

    def __init__(self, path, value):
        *scopes, self._variable = path.split("/")
        super().__init__(name=scopes[0] if scopes else "root")
        self._value = value

    def build(self, input_shape=None):
        self.variable = self.add_weight(name=self._variable, shape=self._value.shape)
        self.variable.assign(self._value)


def variable(path, value):
    layer = _Named(path, value)
    layer.build()
    return layer.variable


def test_equals_tensorflow_addons_with_bias_correction(shared):
    folder = shared("golden/tfa_lamb")
    settings = json.loads((folder / "run.json").read_text())
    arrays = dict(np.load(folder / "trajectory.npz"))
    variables = {name: variable(name, arrays[f"initial/{name}"]) for name in settings["variables"]}
    optimizer = Lamb(
        settings["learning_rate"],
        weight_decay_rate=settings["weight_decay"],
        epsilon=settings["epsilon"],
        bias_correction=True,
        exclude_from_weight_decay=settings["exclude_from_weight_decay"],
    )
    for step in range(settings["steps"]):
        gradients = [arrays[f"gradients/{name}"][step] for name in variables]
        optimizer.apply(gradients, list(variables.values()))
        for name, value in variables.items():
            np.testing.assert_allclose(
                value.numpy(), arrays[f"after_step/{name}"][step], rtol=1e-5, atol=1e-6
            )


def test_excluded_variables_have_neither_decay_nor_trust_ratio():
    value, gradient = np.full(4, 10.0, "float32"), np.full(4, 2.0, "float32")
    steps = {}
    for path in ("dense/kernel", "dense/bias", "LayerNorm/gamma", "seq_relationship/output_bias"):
        weight = variable(path, value)
        Lamb(0.1).apply([gradient], [weight])
        steps[path] = value - weight.numpy()
    plain = 0.1 * (0.1 * gradient) / (np.sqrt(0.001 * gradient**2) + 1e-6)
    for path in list(steps)[1:]:
        np.testing.assert_allclose(steps[path], plain, rtol=1e-5)
    # Adapted: the step is as long as the learning rate times the variable.
    assert np.linalg.norm(steps["dense/kernel"]) == pytest.approx(0.1 * np.linalg.norm(value), 1e-4)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_schedule_is_the_originals_formula(start, power):
    peak, total, warmup = 0.00176, 100, 10
    schedule = WarmupPolynomialDecay(peak, total, warmup, power, start)
    for step in range(0, 121):
        decayed = peak * (1 - min(step, total) / total) ** power
        expected = peak * (step - start) / warmup if step - start < warmup else decayed
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_unknown_optimizer_names_the_known_ones():
    with pytest.raises(InputError, match=r"--optimizer=lars.*lamb.*adamw"):
        create_optimizer("lars", 0.1)


def test_optimizer_survives_its_own_config():
    schedule = WarmupPolynomialDecay(0.1, 10, 2)
    for name in ("lamb", "adamw"):
        optimizer = create_optimizer(name, schedule, bias_correction=True, weight_decay_rate=0.2)
        again = type(optimizer).from_config(optimizer.get_config())
        assert again.get_config() == optimizer.get_config()


def test_repeated_rows_of_a_sparse_gradient_are_added_up_first():
    tf = pytest.importorskip("tensorflow")
    value = np.ones((4, 2), "float32")
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([2, 2]), (4, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        weight = variable("embedding", value)
        Lamb(0.1).apply([gradient], [weight])
        results.append(weight.numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
