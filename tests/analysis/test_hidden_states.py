"""Distances of layers and statistics of attention against plain loops.

Needs no TensorFlow: tests/modeling/test_jax_backend.py runs it on JAX.
"""

import dataclasses
import math

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.analysis import layers
from albert_tf.analysis.attention import attention_maps, attention_statistics, uniform_statistics
from albert_tf.analysis.layers import layer_distances
from albert_tf.errors import InputError
from tests.support import tiny
from tests.support.models import letters, random_model

CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> albert_tf.Tokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(tiny.VOCAB))
    return albert_tf.Tokenizer.load(str(path))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return random_model("pretraining", CONFIG)


def test_distances_are_means_over_tokens(model, tokenizer, monkeypatch):
    monkeypatch.setattr(layers, "_BATCH", 2)
    texts = ["a cat sat", "b", "a very long text, longer than it reads"]
    rows = []
    for text in texts:
        # One shape for all texts, as JAX compiles every operation for each.
        features = tokenizer(text, max_length=12, padding="max_length")
        outputs = model.encoder(features, output_hidden_states=True)
        hidden = [keras.ops.convert_to_numpy(each)[0] for each in outputs["hidden_states"]]
        for token in range(features["input_mask"].sum()):
            pairs = [(x[token], y[token]) for x, y in zip(hidden[:-1], hidden[1:], strict=True)]
            cosines = [x @ y / math.sqrt((x @ x) * (y @ y)) for x, y in pairs]
            distances = [math.dist(x, y) for x, y in pairs]
            rows.append([distances, cosines, [math.degrees(math.acos(c)) for c in cosines]])
    found = layer_distances(model.encoder, tokenizer, texts)
    assert found.tokens == len(rows) == 9 + 3 + 12
    expected = np.mean(rows, axis=0)
    np.testing.assert_allclose([found.l2, found.cosine], expected[:2], atol=1e-5)
    np.testing.assert_allclose(found.degrees, expected[2], atol=1e-3)


def test_statistics_of_attention(model, tokenizer):
    maps = attention_maps(model.encoder, tokenizer, "ab [MASK]", "c d")
    assert maps.tokens == ["[CLS]", "a", "##b", "[MASK]", "[SEP]", "c", "d", "[SEP]"]
    assert maps.weights.shape == (2, 2, 8, 8)
    np.testing.assert_allclose(maps.weights.sum(-1), 1, atol=1e-5)
    found = attention_statistics(maps)
    uniform = dict.fromkeys(found, 1 / 8) | {"entropy": math.log(8), "sep": 2 / 8}
    assert uniform_statistics(maps) == pytest.approx(uniform)
    for layer in range(2):
        for head in range(2):
            weights = maps.weights[layer, head].tolist()
            expected = {
                "entropy": sum(-p * math.log(p) for row in weights for p in row) / 8,
                "cls": sum(row[0] for row in weights) / 8,
                "sep": sum(row[4] + row[7] for row in weights) / 8,
                "same": sum(weights[i][i] for i in range(8)) / 8,
                "previous": sum(weights[i][i - 1] for i in range(1, 8)) / 7,
                "next": sum(weights[i][i + 1] for i in range(7)) / 7,
            }
            for name, value in expected.items():
                assert found[name][layer, head] == pytest.approx(value, abs=1e-5), name
    with pytest.raises(InputError, match="`text`: 14 tokens; the model reads at most 12"):
        attention_maps(model.encoder, tokenizer, "abcdefghijkl")
