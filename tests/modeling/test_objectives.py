"""Objectives of fine-tuning: values by their formulas, gradients by differences, uneven splits."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    RegressionObjective,
)
from tests.support.backends import BACKEND

DRAW = np.random.default_rng(0)
EXAMPLES, LABELS = 7, 3


def _log_sigmoid(x):
    return -np.log1p(np.exp(-x))


def squared(logits, batch):
    return (logits[:, 0] - batch["label_values"]) ** 2


def binary(logits, batch):
    truth = batch["label_sets"]
    return -(truth * _log_sigmoid(logits) + (1 - truth) * _log_sigmoid(-logits)).mean(axis=1)


def negative_log_likelihood(logits, batch):
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -np.log(probabilities[np.arange(len(logits)), batch["label_ids"]])


# The objective, its labels, how many outputs it reads, and the loss of each example in NumPy.
CASES = {
    "regression": (
        RegressionObjective(),
        {"label_values": DRAW.normal(2, 2, EXAMPLES).astype("float32")},
        1,
        squared,
    ),
    "multi_label": (
        MultiLabelObjective(),
        {"label_sets": DRAW.integers(0, 2, (EXAMPLES, LABELS)).astype("float32")},
        LABELS,
        binary,
    ),
    "classification": (
        ClassificationObjective(),
        {"label_ids": DRAW.integers(0, LABELS, EXAMPLES).astype("int32")},
        LABELS,
        negative_log_likelihood,
    ),
}


def loss_of(objective, logits, batch):
    return objective.loss(objective.sums({"logits": logits}, batch), objective.weights(batch))


@pytest.fixture(params=CASES)
def case(request):
    objective, labels, outputs, per_example = CASES[request.param]
    logits = np.random.default_rng(1).normal(0, 2, (EXAMPLES, outputs)).astype("float32")
    ids = np.ones((EXAMPLES, 4), "int32")
    return objective, {"input_ids": ids, **labels}, logits, per_example


def test_the_loss_is_the_formula_s_mean(case):
    objective, batch, logits, per_example = case
    expected = per_example(logits.astype("float64"), batch).mean()
    actual = ops.convert_to_numpy(loss_of(objective, ops.convert_to_tensor(logits), batch))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_the_loss_of_weighted_examples_is_their_weighted_mean(case):
    objective, batch, logits, per_example = case
    weights, real = DRAW.uniform(0.1, 3, EXAMPLES).astype("float32"), np.arange(EXAMPLES) < 5
    expected = np.average(per_example(logits.astype("float64"), batch), weights=weights * real)
    batch = {**batch, "example_weights": weights, "is_real_example": real.astype("int32")}
    actual = ops.convert_to_numpy(loss_of(objective, ops.convert_to_tensor(logits), batch))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_the_gradient_is_that_of_differences(case):
    objective, batch, logits, per_example = case
    wide = logits.astype("float64")
    expected = np.zeros_like(wide)
    for at in np.ndindex(*wide.shape):
        step = np.zeros_like(wide)
        step[at] = 1e-5
        up, down = (per_example(wide + sign * step, batch).mean() for sign in (1, -1))
        expected[at] = (up - down) / 2e-5
    np.testing.assert_allclose(gradient(objective, logits, batch), expected, atol=2e-6, rtol=1e-4)


def gradient(objective, logits, batch):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        tensor = tf.constant(logits)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            loss = loss_of(objective, tensor, batch)
        return tape.gradient(loss, tensor).numpy()
    import jax

    return np.asarray(jax.grad(lambda x: loss_of(objective, x, batch))(logits))


def test_examples_that_fill_up_do_not_count_and_parts_add_up(case):
    objective, batch, logits, _ = case
    whole = float(ops.convert_to_numpy(loss_of(objective, logits, batch)))
    sums = weights = 0.0
    for part in (slice(0, 5), slice(5, EXAMPLES)):
        filled = {name: np.concatenate([value[part], value[:2]]) for name, value in batch.items()}
        count = len(batch["input_ids"][part])
        filled["is_real_example"] = np.array([1] * count + [0, 0], "int32")
        parts = np.concatenate([logits[part], 100 * np.ones_like(logits[:2])])
        sums += float(
            ops.convert_to_numpy(objective.sums({"logits": parts}, filled)[objective.losses[0]])
        )
        weights += float(ops.convert_to_numpy(*objective.weights(filled).values()))
    assert weights == EXAMPLES
    assert sums / weights == pytest.approx(whole, rel=1e-5)


def test_large_logits_stay_finite():
    batch = {
        "input_ids": np.ones((2, 4), "int32"),
        "label_sets": np.array([[1, 0], [0, 1]], "float32"),
    }
    logits = np.array([[1e4, -1e4], [1e4, -1e4]], "float32")
    losses = ops.convert_to_numpy(
        loss_of(MultiLabelObjective(), ops.convert_to_tensor(logits), batch)
    )
    assert losses == pytest.approx(1e4 / 2)
    assert np.isfinite(gradient(MultiLabelObjective(), logits, batch)).all()
