"""Objectives of fine-tuning: values by their formulas, gradients by differences, uneven splits."""

import numpy as np
import pytest
from keras import ops
from scipy.special import log_softmax

from albert_tf.modeling.losses import (
    NO_LABEL,
    ClassificationObjective,
    MultiLabelObjective,
    MultipleChoiceObjective,
    RegressionObjective,
    TokenClassificationObjective,
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


def soft(logits, batch):
    return -(batch["label_probabilities"] * log_softmax(logits, axis=-1)).sum(axis=-1)


def taught(logits, batch):
    """Return the loss of arXiv 1503.02531, temperature 2.5 and weight 0.3; see `TAUGHT`."""
    if "choice_mask" in batch:
        logits = np.where(batch["choice_mask"], logits, -np.inf)
    log_probabilities = log_softmax(logits / 2.5, axis=-1)
    log_probabilities[batch["teacher_probabilities"] == 0] = 0
    of_teacher = -(batch["teacher_probabilities"] * log_probabilities).sum(axis=-1)
    known = batch["label_ids"] >= 0
    ids = np.maximum(batch["label_ids"], 0)[..., None]
    of_labels = -np.take_along_axis(log_softmax(logits, axis=-1), ids, axis=-1)[..., 0]
    return 0.3 * 2.5**2 * of_teacher + 0.7 * np.where(known, of_labels, 0)


def distributions(*shape):
    values = DRAW.uniform(0, 1, shape).astype("float32")
    return values / values.sum(axis=-1, keepdims=True)


CHOICE_MASK = np.ones((EXAMPLES, LABELS), "float32")
CHOICE_MASK[::2, -1] = 0


def among_choices(logits, batch):
    return negative_log_likelihood(np.where(batch["choice_mask"], logits, -np.inf), batch)


def with_fewer_choices():
    teacher = distributions(EXAMPLES, LABELS) * CHOICE_MASK
    teacher /= teacher.sum(-1, keepdims=True)
    return {"choice_mask": CHOICE_MASK, "teacher_probabilities": teacher}


TAUGHT = {"teacher_weight": 0.3, "temperature": 2.5}
SOME_LABELS = np.array([0, 1, NO_LABEL, 1, 0, NO_LABEL, 1], "int32")


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
    "probabilities_of_labels": (
        ClassificationObjective(),
        {
            "label_ids": np.zeros(EXAMPLES, "int32"),
            "label_probabilities": distributions(EXAMPLES, LABELS),
        },
        LABELS,
        soft,
    ),
    "taught": (
        ClassificationObjective(**TAUGHT),
        {"label_ids": SOME_LABELS, "teacher_probabilities": distributions(EXAMPLES, LABELS)},
        LABELS,
        taught,
    ),
    "choices": (
        MultipleChoiceObjective(),
        {"label_ids": np.arange(EXAMPLES, dtype="int32") % 2, "choice_mask": CHOICE_MASK},
        LABELS,
        among_choices,
    ),
    "taught_choices": (
        MultipleChoiceObjective(**TAUGHT),
        {"label_ids": SOME_LABELS, **with_fewer_choices()},
        LABELS,
        taught,
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


def test_the_loss_is_the_mean_of_the_formula_weighted_or_not(case):
    objective, batch, logits, per_example = case
    weights, real = DRAW.uniform(0.1, 3, EXAMPLES).astype("float32"), np.arange(EXAMPLES) < 5
    losses = per_example(logits.astype("float64"), batch)
    weighted = {**batch, "example_weights": weights, "is_real_example": real.astype("int32")}
    for each, factors in ((batch, None), (weighted, weights * real)):
        actual = ops.convert_to_numpy(loss_of(objective, ops.convert_to_tensor(logits), each))
        np.testing.assert_allclose(actual, np.average(losses, weights=factors), rtol=1e-5)


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


def test_a_certain_probability_is_a_label_and_without_label_the_teacher_is_right():
    ids, logits = np.array([0, 2], "int32"), np.float32([[1, 0, 0.5], [2, -1, 3]])
    batch = {"input_ids": np.ones((2, 4), "int32"), "label_ids": ids}
    objective = ClassificationObjective()
    certain = {**batch, "label_probabilities": np.eye(3, dtype="float32")[ids]}
    sums, same = (objective.sums({"logits": logits}, each) for each in (batch, certain))
    for name, value in sums.items():
        assert float(same[name]) == pytest.approx(float(value), abs=1e-6)
    batch |= {"label_ids": np.array([0, NO_LABEL], "int32")}
    batch["teacher_probabilities"] = np.float32([[0, 1, 0], [0.1, 0.1, 0.8]])
    assert float(objective.sums({"logits": logits}, batch)["classification_accuracy"]) == 2


def test_tokens_are_taught_where_words_begin():
    shape = (2, 5, LABELS)
    labels = np.full(shape[:2], NO_LABEL, "int32")
    labels[0, 1], labels[1, 3] = 2, 0
    teacher = distributions(*shape)
    teacher[[0, 0, 0, 1, 1], [0, 2, 4, 0, 4]] = 0  # no words; (0, 3), (1, 1), (1, 2): no labels
    batch = {"input_ids": np.ones((2, 4)), "label_ids": labels, "teacher_probabilities": teacher}
    logits = np.random.default_rng(1).normal(0, 2, (2, 4, LABELS)).astype("float32")
    batch["example_weights"] = np.float32([1, 3])
    objective = TokenClassificationObjective(**TAUGHT)
    # Batches are shorter than the arrays of labels.
    short = {name: value[:, :4] for name, value in batch.items() if value.ndim > 1}
    losses = taught(logits.astype("float64"), short)
    counted = short["teacher_probabilities"].any(axis=-1)
    sums = objective.sums({"logits": logits}, batch)
    expected = (losses * counted)[0].sum() + 3 * (losses * counted)[1].sum()
    assert float(objective.weights(batch)["token_classification"]) == 2 + 3 * 3
    assert float(sums["token_classification_loss"]) == pytest.approx(expected, rel=1e-5)


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
