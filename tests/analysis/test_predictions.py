"""Predictions by layer against `MaskedLM`, and neighbors of embeddings against a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

import albert_tf
from albert_tf.analysis.embeddings import ids_of, nearest_neighbors
from albert_tf.analysis.probe import probe
from albert_tf.errors import InputError
from tests.support import tiny


@pytest.mark.integration
def test_the_last_layer_predicts_as_the_model_does(model, tokenizer):
    masked_lm = albert_tf.MaskedLM(model, tokenizer)
    text = "a [MASK] b [MASK]"
    layers = probe(masked_lm, text, top_k=3, target="b")
    assert len(layers) == tiny.CONFIG.num_hidden_layers + 1
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
    np.testing.assert_allclose(other[0][0].probabilities, layers[0][0].probabilities, rtol=1e-5)
    assert not np.allclose(other[-1][0].probabilities, layers[-1][0].probabilities, rtol=1e-4)
    for words, message in [
        (("no mask",), r"`text`: contains no \[MASK\]"),
        ((text, 3, "ab"), "`target`=ab: must be one token of the vocabulary, but is a ##b"),
    ]:
        with pytest.raises(InputError, match=message):
            probe(masked_lm, *words)


def test_neighbors_have_the_highest_cosines(tokenizer):
    table = np.random.default_rng(0).normal(size=(tiny.VOCAB, 4)).astype(np.float32)
    table[7] = 3 * table[5]
    ids = ids_of(tokenizer, ("ab", "##b", "[MASK]", "a"))
    assert [tokenizer.pieces[id] for id in ids] == ["a", "##b", "[MASK]"]
    for id, found in zip(ids, nearest_neighbors(table, ids, 3), strict=True):
        cosines = {
            other: row @ table[id] / math.sqrt((row @ row) * (table[id] @ table[id]))
            for other, row in enumerate(table)
            if other != id
        }
        best = sorted(cosines, key=cosines.get, reverse=True)[:3]
        assert [other for other, _ in found] == best
        for other, cosine in found:
            assert cosine == pytest.approx(cosines[other], abs=1e-5)
    assert nearest_neighbors(table, [5], 1)[0][0] == (7, pytest.approx(1))
    with pytest.raises(InputError, match="`pieces`=é-é: contains a piece that is not in"):
        ids_of(tokenizer, ("é-é",))
