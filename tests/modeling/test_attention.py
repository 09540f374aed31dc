"""Attention can be replaced, and its weights and the embeddings can be read."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import ATTENTION, DEFAULT, dot_product_attention
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import PLAIN_KERNELS
from tests.modeling.test_forward_pass import LENGTH, PLAIN, SHAPES, random_features, randomise
from tests.support.backends import forward
from tests.support.tiny import CONFIG, batch

NO_DROPOUT = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@keras.saving.register_keras_serializable(package="tests")
def first_token_attention(query, key, value, attention_mask, dropout=None):
    """Return every query attends to the first position only."""
    return ops.zeros_like(query) + value[:, :, :1]


def unregistered(query, key, value, attention_mask, dropout=None):
    return query


@pytest.mark.parametrize("name", ATTENTION)
def test_all_named_implementations_compute_the_same(name):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(NO_DROPOUT, initializer_range=0.3)
    expected, model = AlbertForPreTraining(config), AlbertForPreTraining(config, attention=name)
    model.set_weights(expected.get_weights())
    for heads_only in (False, True):
        one, two = (forward(each, batch(4), heads_only=heads_only) for each in (expected, model))
        for output in ("masked_lm_logits", "sentence_order_logits"):
            np.testing.assert_allclose(one[output], two[output], rtol=0, atol=1e-5)


def test_a_function_takes_the_place_of_attention():
    keras.utils.set_random_seed(0)
    model = AlbertEncoder(CONFIG, attention=first_token_attention)
    features = batch(4)
    # Nothing but [CLS] can reach the output at [CLS].
    other = {**features, "input_ids": np.where(np.arange(16) > 0, 7, features["input_ids"])}
    one, two = (forward(model, each)["pooled_output"] for each in (features, other))
    np.testing.assert_array_equal(one, two)
    plain = AlbertEncoder(CONFIG)
    one, two = (forward(plain, each)["pooled_output"] for each in (features, other))
    assert not np.allclose(one, two)


def test_functions_get_the_documented_arguments():
    seen = {}

    def attention(query, key, value, attention_mask, dropout=None):
        seen.update(query=query.shape, key=key.shape, value=value.shape, mask=attention_mask.shape)
        seen["dropout"] = dropout
        return dot_product_attention(query, key, value, attention_mask, dropout)

    model = AlbertForPreTraining(
        dataclasses.replace(CONFIG, num_hidden_layers=1), attention=attention
    )
    model(batch(3), training=True, heads_only=True)
    heads, size = CONFIG.num_attention_heads, CONFIG.hidden_size // CONFIG.num_attention_heads
    assert seen["query"] == (3, heads, 5, size)  # 4 predictions and [CLS]
    assert seen["key"] == seen["value"] == (3, heads, 16, size)
    assert seen["mask"] == (3, 16)
    assert callable(seen["dropout"])
    forward(model, batch(3))
    assert seen["query"] == (3, heads, 16, size)
    assert seen["dropout"] is None


def test_the_kernels_of_an_engine_replace_the_default_attention_only():
    def refuse(*arguments):
        raise AssertionError

    fused = dataclasses.replace(PLAIN_KERNELS, attention={**ATTENTION, DEFAULT: refuse})
    tensors = ops.zeros((1, 3, CONFIG.hidden_size)), ops.ones((1, 3))
    with pytest.raises(AssertionError):
        AlbertEncoder(CONFIG).blocks[0].attention(*tensors, kernels=fused)
    named = AlbertEncoder(CONFIG, attention=dot_product_attention)
    with pytest.raises(AssertionError):
        named.blocks[0].attention(*tensors, kernels=fused)
    replaced = AlbertEncoder(CONFIG, attention=first_token_attention)
    replaced.blocks[0].attention(*tensors, kernels=fused)


@pytest.mark.parametrize("attention", ["backend", first_token_attention])
def test_the_choice_is_saved_with_the_model(attention):
    model = AlbertForPreTraining(CONFIG, attention=attention)
    text = json.dumps(keras.saving.serialize_keras_object(model))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert again.encoder.attention is model.encoder.attention
    assert again.get_config() == model.get_config()


def test_configs_without_attention_still_load():
    values = AlbertEncoder(CONFIG).get_config()
    del values["attention"]
    assert AlbertEncoder.from_config(values).attention == DEFAULT


def test_unknown_names_and_unregistered_functions_are_refused():
    with pytest.raises(InputError, match="`attention`='sparse': must be one of dot_product, "):
        AlbertEncoder(CONFIG, attention="sparse")
    model = AlbertEncoder(CONFIG, attention=unregistered)
    with pytest.raises(InputError, match="cannot be saved.*register_keras_serializable"):
        model.get_config()


def test_dropout_is_refused_where_there_is_none():
    model = AlbertEncoder(CONFIG, attention="backend")
    forward(model, batch(2))
    with pytest.raises(InputError, match="`attention_probs_dropout_prob`: must be 0"):
        model(batch(2), training=True)


@pytest.mark.parametrize("shape", ["attention_shared", "groups_and_inner_groups_relu"])
def test_attention_weights_and_embeddings_equal_the_formulas(shape):
    model = AlbertForPreTraining(AlbertConfig(**{**PLAIN, **SHAPES[shape]}))
    oracle = randomise(model)
    features = random_features(model.config, (2, LENGTH))
    plain = forward(model.encoder, features)
    outputs = forward(model.encoder, features, output_attentions=True, output_embeddings=True)
    assert outputs.keys() - plain.keys() == {
        "attentions",
        "embedding_output",
        "projected_embeddings",
    }
    for number in range(2):
        ids, mask, segments = (features[f"{n}"][number] for n in NAMES)
        embedded = oracle.embed(ids, segments)
        close(outputs["embedding_output"][number], embedded)
        projected = oracle.dense("bert/encoder/embedding_hidden_mapping_in", embedded)
        close(outputs["projected_embeddings"][number], projected)
        oracle.attentions.clear()
        oracle.encode(ids, mask, segments)
        assert len(oracle.attentions) == len(outputs["attentions"])
        for actual, expected in zip(outputs["attentions"], oracle.attentions, strict=True):
            close(actual[number], expected)


NAMES = ("input_ids", "input_mask", "segment_ids")


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_weights_of_other_functions_are_unknown():
    model = AlbertEncoder(CONFIG, attention=first_token_attention)
    with pytest.raises(InputError, match="`output_attentions`=True: not available"):
        model(batch(2), output_attentions=True)
