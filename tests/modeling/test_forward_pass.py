"""The model against a forward pass in NumPy; test_original_outputs.py has the original's.

Attention can be replaced, and its weights and the embeddings can be read.
"""

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
from tests.support.backends import BACKEND, forward
from tests.support.oracle import Oracle, random_weights
from tests.support.tiny import CONFIG, WITHOUT_DROPOUT, batch

LENGTH = 11  # of sequences, in tokens

PLAIN = {
    "vocab_size": 37,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 13,
}

# What a config may say: every activation, E below, at and above H, groups, inner groups, sharing.
SHAPES = {
    "groups_and_inner_groups_relu": {
        "num_hidden_layers": 6,
        "num_hidden_groups": 3,
        "inner_group_num": 2,
        "hidden_act": "relu",
    },
    "nothing_shared_no_projection": {
        "num_hidden_groups": 3,
        "embedding_size": 12,
        "hidden_act": "gelu_exact",
    },
    "attention_shared": {"parameter_sharing": "attention", "inner_group_num": 2},
    "ffn_shared": {"parameter_sharing": "ffn", "hidden_act": "gelu_exact"},
    "sharing_none": {"parameter_sharing": "none", "embedding_size": 12, "hidden_act": "relu"},
    "odd_sizes": {
        "vocab_size": 41,
        "embedding_size": 7,
        "hidden_size": 15,
        "num_attention_heads": 5,
        "intermediate_size": 11,
        "type_vocab_size": 3,
        "max_position_embeddings": LENGTH,
        "hidden_dropout_prob": 0.3,
        "attention_probs_dropout_prob": 0.3,
    },
    "embeddings_wider_than_layers": {"embedding_size": 20, "num_attention_heads": 1},
    # In floating point, int(15 / 22 * 22) is 14: the original gives layer 15 the group of layer 14.
    "a_group_per_layer_of_22": {
        "num_hidden_layers": 22,
        "num_hidden_groups": 22,
        "hidden_size": 4,
        "num_attention_heads": 2,
        "intermediate_size": 4,
    },
}

# Which layer belongs to which group is the same on every backend, and 22 layers compile slowly.
ON_THIS_BACKEND = [
    name for name in SHAPES if BACKEND == "tensorflow" or name != "a_group_per_layer_of_22"
]


def random_features(config, shape, seed=0):
    """Return features `[*shape]`: one full sequence, others padded, holes in the mask."""
    random = np.random.default_rng(seed)
    length = shape[-1]
    mask = np.arange(length) < random.integers(length // 2, length + 1, (*shape[:-1], 1))
    mask[0] = True
    mask[-1] &= random.random(mask[-1].shape) < 0.8
    positions = random.integers(0, length, (*shape[:-1], 5))
    features = {
        "input_ids": random.integers(0, config.vocab_size, shape) * mask,
        "input_mask": mask,
        "segment_ids": random.integers(0, config.type_vocab_size, shape),
        "masked_lm_positions": positions,
    }
    return {name: values.astype("int32") for name, values in features.items()}


def randomise(model, seed=0):
    """Give a model random weights; the oracle of them."""
    weights = random_weights({w.path: tuple(w.shape) for w in model.trainable_variables}, seed)
    for weight in model.trainable_variables:
        weight.assign(weights[weight.path])
    return Oracle(model.config, weights)


def close(actual, expected, name=""):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.integration
@pytest.mark.parametrize("shape", ON_THIS_BACKEND)
def test_outputs_are_those_of_the_formulas(shape):
    model = AlbertForPreTraining(AlbertConfig(**{**PLAIN, **SHAPES[shape]}))
    oracle = randomise(model)
    encoder = model.encoder.trainable_variables
    assert sum(np.prod(w.shape) for w in encoder) == model.config.parameter_count()
    features = random_features(model.config, (3, LENGTH))
    outputs, expected = forward(model, features), oracle.pretraining(features)
    outputs["encoder_outputs"] = np.stack(outputs["encoder_outputs"])
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        assert outputs[name].dtype == np.float32
        close(outputs[name], value, name)


@keras.saving.register_keras_serializable(package="tests")
def first_token_attention(query, key, value, attention_mask, dropout=None):
    """Return every query attends to the first position only."""
    return ops.zeros_like(query) + value[:, :, :1]


def unregistered(query, key, value, attention_mask, dropout=None):
    return query


@pytest.mark.parametrize("name", ATTENTION)
def test_all_named_implementations_compute_the_same(name):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(WITHOUT_DROPOUT, initializer_range=0.3)
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
        ids, mask, segments = (
            features[n][number] for n in ("input_ids", "input_mask", "segment_ids")
        )
        embedded = oracle.embed(ids, segments)
        close(outputs["embedding_output"][number], embedded)
        projected = oracle.dense("bert/encoder/embedding_hidden_mapping_in", embedded)
        close(outputs["projected_embeddings"][number], projected)
        oracle.attentions.clear()
        oracle.encode(ids, mask, segments)
        assert len(oracle.attentions) == len(outputs["attentions"])
        for actual, expected in zip(outputs["attentions"], oracle.attentions, strict=True):
            close(actual[number], expected)


def test_weights_of_other_functions_are_unknown():
    model = AlbertEncoder(CONFIG, attention=first_token_attention)
    with pytest.raises(InputError, match="`output_attentions`=True: not available"):
        model(batch(2), output_attentions=True)
