"""Properties of the model that hold whatever its weights are."""

import dataclasses

import keras
import numpy as np
from keras import ops

from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from tests.support.backends import forward
from tests.support.tiny import CONFIG, LENGTH, batch


def changed(**fields):
    return dataclasses.replace(CONFIG, **fields)


def test_padding_does_not_reach_the_tokens():
    keras.utils.set_random_seed(0)
    model = AlbertEncoder(CONFIG)
    features = batch(4)
    padded = features["input_mask"] == 0
    other = {**features, "input_ids": np.where(padded, 17, features["input_ids"])}
    one, two = (forward(model, each)["sequence_output"] for each in (features, other))
    np.testing.assert_allclose(one[~padded], two[~padded], atol=1e-6)


def test_mask_and_segments_may_be_left_out():
    model = AlbertEncoder(CONFIG)
    ids = np.full((2, LENGTH), 7, "int32")
    full = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    np.testing.assert_allclose(
        forward(model, {"input_ids": ids})["pooled_output"],
        forward(model, full)["pooled_output"],
        atol=1e-6,
    )


def test_bfloat16_keeps_variables_and_logits_in_float32():
    model = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    outputs = forward(model, batch(2))
    assert outputs["sequence_output"].dtype == "bfloat16"
    for name in ("masked_lm_logits", "sentence_order_logits"):
        assert outputs[name].dtype == "float32"


def test_bfloat16_computes_nearly_the_same():
    keras.utils.set_random_seed(0)
    full = AlbertForPreTraining(CONFIG)
    half = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    half.set_weights(full.get_weights())
    one, two = forward(full, batch(4)), forward(half, batch(4))
    for name in ("masked_lm_logits", "sentence_order_logits"):
        np.testing.assert_allclose(one[name], two[name], atol=0.05)


def test_classifier_dropout_acts_in_training_only():
    config = changed(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = AlbertForSequenceClassification(config, num_labels=3, classifier_dropout=0.5)
    features = batch(4)
    plain = ops.convert_to_numpy(model(features)["logits"])
    np.testing.assert_array_equal(model(features)["logits"], plain)
    first = ops.convert_to_numpy(model(features, training=True)["logits"])
    assert not np.allclose(first, plain)
    assert not np.allclose(model(features, training=True)["logits"], first)
