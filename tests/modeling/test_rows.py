"""Rows of several examples: outputs and gradients are those of each example alone."""

import dataclasses

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input.rows import Places
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import PretrainingObjective
from tests.support.backends import forward, gradient_function
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, batch

PLACES = Places.one_after_the_other(np.array([0, 0, 0, 1]), batch(4)["input_mask"].sum(1))
EXAMPLES = batch(4)
# Three times as long, for three examples.
PADDED = {
    name: np.pad(values, [(0, 0), (0, 2 * values.shape[1])]) for name, values in EXAMPLES.items()
}
ROWS = PLACES.pack(PADDED, pad_id=0) | {
    name: np.stack([PADDED[name][:3, :PREDICTIONS].ravel(), PADDED[name][3]])
    for name in EXAMPLES
    if name.startswith("masked_lm_")
}
ROWS["masked_lm_positions"][0] += np.repeat(PLACES.begin[:3], PREDICTIONS)
WIDE = dataclasses.replace(
    CONFIG,
    max_position_embeddings=3 * LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.5,
)


@pytest.fixture(autouse=True)
def _same_weights():
    keras.utils.set_random_seed(0)


@pytest.mark.parametrize("attention", ["dot_product", "backend"])
def test_outputs_are_those_of_examples(attention):
    encoder = AlbertEncoder(WIDE, attention=attention)
    rows, alone = (forward(encoder, model_inputs(each)) for each in (ROWS, EXAMPLES))
    pooled = rows["pooled_output"][PLACES.row, PLACES.number]
    np.testing.assert_allclose(pooled, alone["pooled_output"], atol=2e-5)
    for number, (row, _, begin, length) in enumerate(zip(*PLACES, strict=True)):
        found = rows["sequence_output"][row, begin : begin + length]
        np.testing.assert_allclose(found, alone["sequence_output"][number, :length], atol=2e-5)
    assert all(np.isfinite(each).all() for each in (rows["pooled_output"], rows["sequence_output"]))


def model_inputs(examples):
    names = ("input_ids", "segment_ids", "input_mask", *AlbertEncoder.feature_names)
    return {name: examples[name] for name in names if name in examples}


@pytest.mark.parametrize("heads_only", [False, True])
def test_losses_and_gradients_are_those_of_examples(heads_only):
    model, objective = AlbertForPreTraining(WIDE), PretrainingObjective()

    def loss(outputs, examples):
        sums, weights = objective.sums(outputs, examples), objective.weights(examples)
        return objective.loss(sums, weights), (sums, weights)

    gradients_of = gradient_function(model, loss, heads_only=heads_only)
    (others, found), (expected_others, expected) = gradients_of(ROWS), gradients_of(EXAMPLES)
    for one, other in zip(others, expected_others, strict=True):
        assert {n: float(v) for n, v in one.items()} == pytest.approx(
            {n: float(v) for n, v in other.items()}, rel=1e-4
        )
    largest = max(np.abs(each).max() for each in expected)
    for weight, one, other in zip(model.trainable_variables, found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * largest, err_msg=weight.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cls_positions": None}, "rows have example_ids and cls_positions, both, and no input_m"),
        ({"input_mask": np.ones_like(ROWS["input_ids"])}, "both, and no input_mask; got"),
        ({"example_ids": ROWS["example_ids"] + 3}, "example_ids contains .* must be in .0, 3."),
        ({"cls_positions": ROWS["cls_positions"] - 1}, "cls_positions contains -1"),
    ],
)
def test_what_is_no_row_is_refused(changes, message):
    features = {n: v for n, v in {**model_inputs(ROWS), **changes}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        AlbertEncoder(WIDE)(features)
    with pytest.raises(InputError, match="unknown key 'cls_positions'"):
        AlbertForSequenceClassification(WIDE, 2)(model_inputs(ROWS))
