"""Numbers about layers, attention, predictions and embeddings against plain loops.

Needs no TensorFlow: tests/test_jax_backend.py runs it on JAX.
"""

from __future__ import annotations

import dataclasses
import math

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.analysis.attention import attention_maps, attention_statistics
from albert_tf.analysis.embeddings import ids_of, nearest_neighbours
from albert_tf.analysis.layers import layer_distances
from albert_tf.analysis.probe import probe
from albert_tf.errors import InputError
from tests import tiny
from tests.interop.models import letters, random_model

CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> albert_tf.Tokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(tiny.VOCAB))
    return albert_tf.Tokenizer.load(str(path))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return random_model("pretraining", CONFIG)


def test_distances_are_means_over_tokens(model, tokenizer):
    texts = ["a cat sat", "b", "a very long text, longer than it reads"]
    rows = []
    for text in texts:
        features = tokenizer(text, max_length=10)
        outputs = model.encoder(features, output_hidden_states=True)
        hidden = [keras.ops.convert_to_numpy(each)[0] for each in outputs["hidden_states"]]
        for token in range(hidden[0].shape[0]):
            pairs = [(x[token], y[token]) for x, y in zip(hidden[:-1], hidden[1:], strict=True)]
            cosines = [x @ y / math.sqrt((x @ x) * (y @ y)) for x, y in pairs]
            distances = [math.dist(x, y) for x, y in pairs]
            rows.append([distances, cosines, [math.degrees(math.acos(c)) for c in cosines]])
    found = layer_distances(model.encoder, tokenizer, texts, max_length=10, batch_size=2)
    assert found.tokens == len(rows) == 9 + 3 + 10
    expected = np.mean(rows, axis=0)
    np.testing.assert_allclose([found.l2, found.cosine], expected[:2], atol=1e-5)
    np.testing.assert_allclose(found.degrees, expected[2], atol=1e-3)
    with pytest.raises(InputError, match="`max_length`=13: the model reads at most 12 tokens"):
        layer_distances(model.encoder, tokenizer, texts, max_length=13)


def test_statistics_of_attention(model, tokenizer):
    maps = attention_maps(model.encoder, tokenizer, "ab [MASK]", "c d")
    assert maps.tokens == ["[CLS]", "a", "##b", "[MASK]", "[SEP]", "c", "d", "[SEP]"]
    assert maps.weights.shape == (2, 2, 8, 8)
    np.testing.assert_allclose(maps.weights.sum(-1), 1, atol=1e-5)
    found = attention_statistics(maps)
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


@pytest.mark.integration
def test_the_last_layer_predicts_as_the_model_does(model, tokenizer):
    masked_lm = albert_tf.MaskedLM(model, tokenizer)
    text = "a [MASK] b [MASK]"
    layers = probe(masked_lm, text, top_k=3, target="b")
    assert len(layers) == CONFIG.num_hidden_layers + 1
    answers = masked_lm.fill_mask(text, top_k=tiny.VOCAB)
    for prediction, answer in zip(layers[-1], answers, strict=True):
        assert prediction.tokens == [each.token for each in answer[:3]]
        expected = [each.probability for each in answer[:3]]
        np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-6)
        best = answer[prediction.target_rank - 1]
        assert best.token == "b"
        assert prediction.target_probability == pytest.approx(best.probability, abs=1e-6)
    # Before the first layer, a mask is its own embedding only, wherever the other tokens are.
    other = probe(masked_lm, "z [MASK] z", top_k=3)
    assert other[0][0].tokens == layers[0][0].tokens
    assert other[-1][0].probabilities != layers[-1][0].probabilities
    for words, message in [
        (("no mask",), r"`text`: contains no \[MASK\]"),
        ((text, 3, "ab"), "`target`=ab: must be one token of the vocabulary, but is a ##b"),
    ]:
        with pytest.raises(InputError, match=message):
            probe(masked_lm, *words)


def test_neighbours_have_the_highest_cosines(tokenizer):
    table = np.random.default_rng(0).normal(size=(tiny.VOCAB, 4)).astype(np.float32)
    table[7] = 3 * table[5]
    ids = ids_of(tokenizer, ("ab", "##b", "[MASK]", "a"))
    assert [tokenizer.pieces[id] for id in ids] == ["a", "##b", "[MASK]"]
    for id, found in zip(ids, nearest_neighbours(table, ids, 3), strict=True):
        cosines = {
            other: row @ table[id] / math.sqrt((row @ row) * (table[id] @ table[id]))
            for other, row in enumerate(table)
            if other != id
        }
        best = sorted(cosines, key=cosines.get, reverse=True)[:3]
        assert [other for other, _ in found] == best
        for other, cosine in found:
            assert cosine == pytest.approx(cosines[other], abs=1e-5)
    assert nearest_neighbours(table, [5], 1)[0][0] == (7, pytest.approx(1))
    with pytest.raises(InputError, match="`pieces`=é-é: contains a piece that is not in"):
        ids_of(tokenizer, ("é-é",))
