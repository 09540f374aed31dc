"""The model against a forward pass in NumPy, and that against the original."""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.modeling.question_answering import AlbertForQuestionAnswering
from tests.conftest import GOLDEN
from tests.support.backends import BACKEND, forward
from tests.support.oracle import Oracle, random_weights

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
        np.testing.assert_allclose(outputs[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_task_heads_are_those_of_the_formulas():
    config = AlbertConfig(**PLAIN)
    features = random_features(config, (2, 3, LENGTH))
    flat = {name: values.reshape(6, -1) for name, values in features.items()}

    def encoded(model):
        rows = zip(flat["input_ids"], flat["input_mask"], flat["segment_ids"], strict=True)
        oracle = randomise(model)
        blocks = [oracle.encode(*row)[-1] for row in rows]
        return oracle, np.stack(blocks), np.stack([oracle.pool(each) for each in blocks])

    def close(actual, expected):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)

    model = AlbertForSequenceClassification(config, num_labels=3)
    oracle, _, pooled = encoded(model)
    close(forward(model, flat)["logits"], oracle.linear_head(head_of(model), pooled))

    model = AlbertForTokenClassification(config, num_labels=4)
    oracle, sequence, _ = encoded(model)
    close(forward(model, flat)["logits"], oracle.linear_head(head_of(model), sequence))

    model = AlbertForMultipleChoice(config)
    oracle, _, pooled = encoded(model)
    expected = oracle.linear_head(head_of(model), pooled).reshape(2, 3)
    close(forward(model, features)["logits"], expected)

    model = AlbertForQuestionAnswering(config)
    oracle, sequence, _ = encoded(model)
    outputs, expected = forward(model, flat), oracle.linear_head(head_of(model), sequence)
    close(outputs["start_logits"], expected[..., 0])
    close(outputs["end_logits"], expected[..., 1])


def head_of(model):
    """Return where the variables of a model's one head are."""
    (path,) = (w.path for w in model.weights if w.path.endswith("output_weights"))
    return path.rpartition("/")[0]


@pytest.mark.parametrize("name", ["tiny", "groups2", "nomap"])
def test_the_formulas_are_the_originals(name):
    folder = GOLDEN / f"google_tf1_{name}"
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    expected = np.load(folder / "outputs.npz")
    outputs = Oracle(config, dict(np.load(folder / "variables.npz"))).pretraining(
        dict(np.load(folder / "inputs.npz"))
    )
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5)
    for part in ("masked_lm", "sentence_order"):
        log_probs = expected[f"{part}_log_probs"]
        logits = outputs[f"{part}_logits"].reshape(log_probs.shape)
        normalized = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        np.testing.assert_allclose(normalized, log_probs, rtol=0, atol=1e-5)
