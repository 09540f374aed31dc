"""Properties of the model that hold whatever its weights are."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from tests.tiny import CONFIG, LENGTH, batch


def changed(**fields):
    return dataclasses.replace(CONFIG, **fields)


def test_layers_share_parameters_within_a_group():
    shared = AlbertEncoder(changed(num_hidden_layers=4)).weights
    assert len(shared) == len(AlbertEncoder(changed(num_hidden_layers=8)).weights)
    two_groups = AlbertEncoder(changed(num_hidden_layers=4, num_hidden_groups=2)).weights
    assert len(two_groups) == len(shared) + 16


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (1, 2)])
def test_there_is_an_output_per_block(groups, inner):
    config = changed(num_hidden_layers=4, num_hidden_groups=groups, inner_group_num=inner)
    outputs = AlbertEncoder(config)(batch(2))
    assert len(outputs["encoder_outputs"]) == 4 * inner
    last = outputs["encoder_outputs"][-1]
    np.testing.assert_array_equal(last, outputs["sequence_output"])


def test_padding_does_not_reach_the_tokens():
    keras.utils.set_random_seed(0)
    model = AlbertEncoder(CONFIG)
    features = batch(4)
    padded = features["input_mask"] == 0
    other = {**features, "input_ids": np.where(padded, 17, features["input_ids"])}
    one, two = model(features)["sequence_output"], model(other)["sequence_output"]
    tokens = ~padded
    np.testing.assert_allclose(
        ops.convert_to_numpy(one)[tokens], ops.convert_to_numpy(two)[tokens], atol=1e-6
    )


def test_mask_and_segments_may_be_left_out():
    model = AlbertEncoder(CONFIG)
    ids = np.full((2, LENGTH), 7, "int32")
    full = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    np.testing.assert_array_equal(
        model({"input_ids": ids})["pooled_output"], model(full)["pooled_output"]
    )


def test_predictions_belong_to_their_positions():
    model = AlbertForPreTraining(CONFIG)
    features = batch(3)
    logits = ops.convert_to_numpy(model(features)["masked_lm_logits"])
    reverse = {**features, "masked_lm_positions": features["masked_lm_positions"][:, ::-1]}
    np.testing.assert_allclose(model(reverse)["masked_lm_logits"], logits[:, ::-1], atol=1e-6)


def test_bfloat16_keeps_variables_and_logits_in_float32():
    model = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    outputs = model(batch(2))
    assert keras.backend.standardize_dtype(outputs["sequence_output"].dtype) == "bfloat16"
    for name in ("masked_lm_logits", "sentence_order_logits"):
        assert keras.backend.standardize_dtype(outputs[name].dtype) == "float32"


def test_bfloat16_computes_nearly_the_same():
    keras.utils.set_random_seed(0)
    full = AlbertForPreTraining(CONFIG)
    half = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    half.set_weights(full.get_weights())
    one, two = full(batch(4)), half(batch(4))
    for name in ("masked_lm_logits", "sentence_order_logits"):
        np.testing.assert_allclose(one[name], two[name], atol=0.05)


def test_models_come_back_from_their_config():
    for model in (
        AlbertEncoder(CONFIG),
        AlbertForPreTraining(CONFIG),
        AlbertForSequenceClassification(CONFIG, num_labels=3, classifier_dropout=0.2),
    ):
        again = type(model).from_config(model.get_config())
        assert [w.path for w in again.weights] == [w.path for w in model.weights]
        assert again.get_config() == model.get_config()


def test_classifier_dropout_acts_in_training_only():
    config = changed(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = AlbertForSequenceClassification(config, num_labels=3, classifier_dropout=0.5)
    features = batch(4)
    plain = ops.convert_to_numpy(model(features)["logits"])
    np.testing.assert_array_equal(model(features)["logits"], plain)
    first = ops.convert_to_numpy(model(features, training=True)["logits"])
    assert not np.allclose(first, plain)
    assert not np.allclose(model(features, training=True)["logits"], first)


def test_keras_fit_trains_it_too():
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)

    class Logits(keras.Model):
        def call(self, features, training=False):
            return model(features, training=training)["logits"]

    wrapper = Logits()
    wrapper.inner = model
    features = {k: v for k, v in batch(32).items() if k in ("input_ids", "input_mask")}
    labels = (features["input_ids"][:, 1] > 30).astype("int32")
    from albert_tf.optimization.lamb import Lamb

    wrapper.compile(Lamb(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = wrapper.fit(features, labels, epochs=20, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
