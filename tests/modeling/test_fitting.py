"""Keras's own training of the models: the loss is the objective's, or any of Keras."""

import dataclasses

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

from albert_tf.errors import InputError
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
)
from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    MultipleChoiceObjective,
    PretrainingObjective,
    RegressionObjective,
)
from albert_tf.modeling.question_answering import (
    AlbertForConditionalQuestionAnswering,
    AlbertForQuestionAnswering,
    ConditionalSpanObjective,
    SpanObjective,
)
from tests.support.backends import as_numpy, forward
from tests.support.tiny import WITHOUT_DROPOUT, batch

PLAIN = dataclasses.replace(WITHOUT_DROPOUT, num_hidden_layers=1)
EXAMPLES = 8
BATCH = batch(EXAMPLES)
INPUTS = {name: BATCH[name] for name in ("input_ids", "input_mask", "segment_ids")}
CHOICES = {name: values.reshape(4, 2, -1) for name, values in INPUTS.items()}
DRAW = np.random.default_rng(0)
CLASSES = DRAW.integers(0, 3, EXAMPLES).astype("int32")
VALUES = DRAW.normal(size=EXAMPLES).astype("float32")
# Of the second segment, its first token, and the position after it.
STARTS = INPUTS["segment_ids"].argmax(axis=1).astype("int32")
SPANS = {"start_positions": STARTS, "end_positions": STARTS + 1}
IMPOSSIBLE = (CLASSES == 0).astype("int32")
POSITIONS = {"masked_lm_positions": BATCH["masked_lm_positions"]}
MASKED = {name: BATCH[name] for name in ("masked_lm_ids", "masked_lm_weights")}
PAIRS = {"next_sentence_labels": BATCH["next_sentence_labels"]}


def classifier(config, labels=3):
    return AlbertForSequenceClassification(config, labels, classifier_dropout=0.0)


# The model, x and y of `fit`, and the objective with the labels by which it knows them.
CASES = {
    "classification": (
        classifier,
        INPUTS,
        CLASSES,
        (ClassificationObjective(), {"label_ids": CLASSES}),
    ),
    "regression": (
        lambda config: classifier(config, 1),
        INPUTS,
        VALUES,
        (RegressionObjective(), {"label_values": VALUES}),
    ),
    "multi label": (
        classifier,
        INPUTS,
        np.eye(3, dtype="float32")[CLASSES],
        (MultiLabelObjective(), {"label_sets": np.eye(3, dtype="float32")[CLASSES]}),
    ),
    "multiple choice": (
        lambda config: AlbertForMultipleChoice(config, classifier_dropout=0.0),
        CHOICES,
        CLASSES[:4] % 2,
        (MultipleChoiceObjective(), {"label_ids": CLASSES[:4] % 2}),
    ),
    "answers": (
        AlbertForQuestionAnswering,
        INPUTS,
        tuple(SPANS.values()),
        (SpanObjective(), SPANS),
    ),
    "conditional answers": (
        lambda config: AlbertForConditionalQuestionAnswering(config, classifier_dropout=0.0),
        {**INPUTS, "start_positions": STARTS},
        {"end_positions": STARTS + 1, "is_impossible": IMPOSSIBLE},
        (ConditionalSpanObjective(), {**SPANS, "is_impossible": IMPOSSIBLE}),
    ),
    "pretraining": (
        AlbertForPreTraining,
        {**INPUTS, **POSITIONS},
        {**MASKED, **PAIRS},
        (PretrainingObjective(), {**MASKED, **PAIRS}),
    ),
    "pretraining on whole batches": (
        AlbertForPreTraining,
        BATCH,
        None,
        (PretrainingObjective(), {**MASKED, **PAIRS}),
    ),
}
FAST = ("classification", "conditional answers")
MANY = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in CASES]


def objective_of(model, features, objective, labels):
    """Return the objective with the current weights."""
    features = {**features, **{k: v for k, v in labels.items() if k == "start_positions"}}
    outputs, labeled = forward(model, features), {**features, **labels}
    sums, weights = objective.sums(outputs, labeled), objective.weights(labeled)
    return float(as_numpy(objective.loss(sums, weights)))


@pytest.mark.integration
@pytest.mark.parametrize("name", MANY)
def test_the_loss_of_every_step_is_the_objective(name):
    keras.utils.set_random_seed(0)
    create, x, y, (objective, labels) = CASES[name]
    model = create(PLAIN)
    model.encoder.embeddings.trainable = False
    frozen = model.encoder.embeddings.get_weights()
    model.compile(keras.optimizers.SGD(0.1))
    expected, actual = [], []
    for _ in range(2):
        expected.append(objective_of(model, x, objective, labels))
        history = model.fit(x, y, batch_size=EXAMPLES, shuffle=False, verbose=0).history
        actual += history["loss"]
    expected.append(objective_of(model, x, objective, labels))
    actual.append(model.evaluate(x, y, batch_size=EXAMPLES, verbose=0))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert len(set(actual)) == 3
    np.testing.assert_equal(model.encoder.embeddings.get_weights(), frozen)


@pytest.mark.integration
def test_losses_weights_and_metrics_of_keras_apply_to_the_logits():
    keras.utils.set_random_seed(0)
    model, weights = classifier(PLAIN), np.arange(EXAMPLES, dtype="float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    logits = forward(model, INPUTS)["logits"]
    results = model.train_on_batch(INPUTS, CLASSES, sample_weight=weights, return_dict=True)
    expected = as_numpy(loss(CLASSES, logits, weights))
    assert results["loss"] == pytest.approx(expected, rel=1e-5)
    assert results["accuracy"] == pytest.approx((logits.argmax(axis=1) == CLASSES).mean())
    predicted = model.predict(INPUTS, batch_size=EXAMPLES, verbose=0)
    assert set(predicted) == {"logits"}
    np.testing.assert_allclose(predicted["logits"], forward(model, INPUTS)["logits"], atol=1e-6)


def test_sample_weights_make_a_weighted_mean_of_an_objective():
    model, weights = classifier(PLAIN), np.arange(EXAMPLES, dtype="float32")
    model.compile("sgd")
    outputs = forward(model, INPUTS)
    each = -log_softmax(outputs["logits"], axis=1)[np.arange(EXAMPLES), CLASSES]
    whole = float(model.compute_loss(INPUTS, CLASSES, outputs, weights))
    assert whole == pytest.approx(np.average(each, weights=weights), rel=1e-5)


def test_labels_that_do_not_fit_are_one_line():
    outputs = {"pooled_output": np.zeros((EXAMPLES, 16), "float32")}
    model = AlbertForQuestionAnswering(PLAIN)
    model.compile("sgd")
    with pytest.raises(InputError, match="needs start_positions, end_positions$"):
        model.compute_loss(INPUTS, {"start_positions": STARTS}, outputs)
    with pytest.raises(InputError, match="`y`: is one array.*start_positions, end_positions"):
        model.compute_loss(INPUTS, STARTS, outputs)
    with pytest.raises(InputError, match="`y`: contains 3 arrays"):
        model.compute_loss(INPUTS, (STARTS, STARTS, STARTS), outputs)
    with pytest.raises(InputError, match="`sample_weight`: must be one array"):
        model.compute_loss(INPUTS, (STARTS, STARTS), outputs, [np.ones(EXAMPLES)])
