"""Properties of models whatever their weights are, `heads_only`, and rematerialization."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.errors import InputError
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.kernels import Execution
from tests.modeling.test_parameters import MODELS
from tests.support.backends import BACKEND, as_numpy, forward, gradient_function, operations
from tests.support.tiny import CONFIG, WITHOUT_DROPOUT, batch


def test_bfloat16_keeps_variables_and_logits_in_float32_and_computes_nearly_the_same():
    keras.utils.set_random_seed(0)
    full = AlbertForPreTraining(CONFIG)
    half = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    assert {weight.dtype for weight in half.weights} == {"float32"}
    half.set_weights(full.get_weights())
    one, two = forward(full, batch(4)), forward(half, batch(4))
    assert two["sequence_output"].dtype == "bfloat16"
    for name in ("masked_lm_logits", "sentence_order_logits"):
        assert two[name].dtype == "float32"
        np.testing.assert_allclose(one[name], two[name], atol=0.05)


def test_classifier_dropout_acts_in_training_only():
    model = AlbertForSequenceClassification(WITHOUT_DROPOUT, num_labels=3, classifier_dropout=0.5)
    features = batch(4)
    plain = ops.convert_to_numpy(model(features)["logits"])
    np.testing.assert_array_equal(model(features)["logits"], plain)
    first = ops.convert_to_numpy(model(features, training=True)["logits"])
    assert not np.allclose(first, plain)
    assert not np.allclose(model(features, training=True)["logits"], first)


# Large weights, so that the output at a position depends on the others.
SHARED = dataclasses.replace(CONFIG, initializer_range=0.3)
GROUPS = dataclasses.replace(SHARED, num_hidden_groups=2, inner_group_num=2)
ONE_LAYER = dataclasses.replace(SHARED, num_hidden_layers=1)
INPUTS = ("input_ids", "input_mask", "segment_ids")


def features(*names):
    return {name: batch(6)[name] for name in names}


# A model of `MODELS`, what it is called with.
CASES = {
    "pretraining": features(*INPUTS, "masked_lm_positions"),
    "pretraining without masks": features(*INPUTS),
    "choice": {name: values.reshape(2, 3, -1) for name, values in features(*INPUTS).items()},
    **{name: features(*INPUTS) for name in ("classifier", "span", "conditional_span", "tagger")},
}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "config"),
    [("pretraining", SHARED), ("pretraining", GROUPS), *((name, ONE_LAYER) for name in CASES)],
)
def test_outputs_are_the_same(name, config):
    keras.utils.set_random_seed(0)
    inputs = CASES[name]
    model = MODELS[name.partition(" ")[0]](config)
    whole, heads = forward(model, inputs), forward(model, inputs, heads_only=True)
    encoded = {"sequence_output", "pooled_output", "encoder_outputs"}
    assert whole.keys() - heads.keys() == encoded
    assert heads
    for output, values in heads.items():
        np.testing.assert_allclose(values, whole[output], rtol=0, atol=2e-5, err_msg=output)
        assert np.ptp(values) > 1e-3, output


@pytest.mark.parametrize("config", [SHARED, GROUPS], ids=["shared", "groups"])
def test_the_last_layer_can_be_computed_at_a_few_positions(config):
    keras.utils.set_random_seed(0)
    encoder = AlbertEncoder(config)
    inputs, positions = features(*INPUTS), batch(6)["masked_lm_positions"]
    whole, few = as_numpy(encoder(inputs)), as_numpy(encoder.encode_at(inputs, positions))
    assert set(few) == {"sequence_output", "pooled_output"}
    at_positions = np.take_along_axis(whole["sequence_output"], positions[..., None], axis=1)
    np.testing.assert_allclose(few["sequence_output"], at_positions, rtol=0, atol=2e-5)
    np.testing.assert_allclose(few["pooled_output"], whole["pooled_output"], rtol=0, atol=2e-5)


@pytest.mark.integration
def test_outputs_on_request_are_those_of_the_encoder():
    keras.utils.set_random_seed(0)
    model = AlbertForSequenceClassification(GROUPS, 3)
    inputs = features(*INPUTS)
    flags = ("output_hidden_states", "output_attentions", "output_embeddings")
    outputs = as_numpy(model(inputs, **dict.fromkeys(flags, True)))
    encoded = as_numpy(model.encoder(inputs, **dict.fromkeys(flags, True)))
    assert outputs.keys() - encoded.keys() == {"logits"}
    for name in ("attentions", "hidden_states", "projected_embeddings"):
        np.testing.assert_array_equal(outputs[name][-1], encoded[name][-1])
    for flag in flags:
        with pytest.raises(
            InputError, match=f"`{flag}`=True: cannot be combined with `heads_only`"
        ):
            model(inputs, heads_only=True, **{flag: True})


SOFTMAX = "Softmax" if BACKEND == "tensorflow" else "exp"


def loss_of(outputs, batch):
    loss = ops.mean(ops.square(outputs["masked_lm_logits"]))
    return loss + ops.mean(ops.square(outputs["sentence_order_logits"])), {}


def differentiated(model, remat):
    """Return a function of a batch that returns gradients."""
    return gradient_function(model, loss_of, training=True, execution=Execution(remat=remat))


def gradients_of(model, remat):
    """Return a function of the dropout's seed."""
    differentiate = differentiated(model, remat)

    def gradients(seed=(5, 40)):
        model.encoder.seed_generator.state.assign(seed)
        return as_numpy(differentiate(batch(8))[1])

    return gradients


@pytest.mark.integration
@pytest.mark.parametrize(
    ("fields", "dtype", "tolerance"),
    [
        ({}, "float32", 1e-6),
        ({"num_hidden_layers": 1, "inner_group_num": 2}, "float32", 1e-6),
        ({}, "mixed_bfloat16", 0.01),
    ],
)
def test_gradients_are_the_same_with_dropout(fields, dtype, tolerance):
    keras.utils.set_random_seed(0)
    model = AlbertForPreTraining(dataclasses.replace(CONFIG, **fields), dtype=dtype)
    keeping, computing_again = gradients_of(model, False), gradients_of(model, True)
    kept, again = keeping(), computing_again()
    largest = max(np.abs(gradient).max() for gradient in kept)
    for weight, one, two in zip(model.trainable_weights, kept, again, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=tolerance * largest, err_msg=weight.path)
    # Dropout acted: in another step or micro-batch the gradients are others, by far more.
    for seed in ((6, 40), (5, 42)):
        other = computing_again(seed)
        assert max(np.abs(a - b).max() for a, b in zip(again, other, strict=True)) > 0.01 * largest


@pytest.mark.integration
def test_every_layer_is_computed_again_and_only_where_it_is_asked_for():
    model = AlbertForPreTraining(dataclasses.replace(CONFIG, num_hidden_layers=2))
    for remat, count in ((False, 2), (True, 4)):
        assert operations(differentiated(model, remat), batch(8)).count(SOFTMAX) == count
