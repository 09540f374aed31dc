"""MaskedLM and SentenceEncoder against their definitions, and against transformers and JAX."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import albert_tf
from albert_tf.errors import InputError
from albert_tf.tasks.sentences.text_model import POOLING
from tests.conftest import refusal
from tests.support.models import write_trained

pytestmark = pytest.mark.integration

TEXTS = ["a [MASK] b.", "[MASK] cat [MASK]", "abc [MASK]"]
PLAIN = ["a cat sat", "b", "cd e", "", "a very long text, longer than it reads"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return write_trained(tmp_path_factory.mktemp("models") / "trained")


@pytest.fixture(scope="module")
def masked_lm(folder) -> albert_tf.MaskedLM:
    return albert_tf.MaskedLM.from_preset(folder)


@pytest.fixture(scope="module")
def encoder(folder) -> albert_tf.SentenceEncoder:
    return albert_tf.SentenceEncoder.from_preset(folder)


def logits_at_every_position(masked_lm, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of one text, and its logits without batches and padding."""
    features = masked_lm.tokenizer(text, special_symbols=True)
    ids = features["input_ids"]
    positions = np.arange(ids.shape[1])[None]
    logits = masked_lm.model({**features, "masked_lm_positions": positions})["masked_lm_logits"]
    return ids[0], np.asarray(logits[0])


def test_candidates_are_the_most_probable_tokens(masked_lm):
    answers = masked_lm.fill_mask(TEXTS, top_k=4, batch_size=2)
    for text, answer in zip(TEXTS, answers, strict=True):
        ids, logits = logits_at_every_position(masked_lm, text)
        expected = softmax(logits[ids == masked_lm.tokenizer.mask_id], axis=-1)
        answer = answer if len(expected) > 1 else [answer]
        for candidates, probabilities in zip(answer, expected, strict=True):
            best = np.argsort(-probabilities)[:4]
            assert [each.token_id for each in candidates] == best.tolist()
            np.testing.assert_allclose(
                [each.probability for each in candidates], probabilities[best], atol=1e-6
            )
            for each in candidates:
                assert each.token == masked_lm.tokenizer.pieces[each.token_id]
                assert each.text == masked_lm.tokenizer.decode([each.token_id])
    single = masked_lm.fill_mask(TEXTS[0], top_k=60)
    assert [each.token_id for each in single[:4]] == [each.token_id for each in answers[0]]
    targeted = masked_lm.fill_mask(TEXTS[0], targets=["a", "##b", "a"])
    assert targeted == [each for each in single if each.token in ("a", "##b")]


def test_scores_mask_one_token_at_a_time(masked_lm):
    tokenizer = masked_lm.tokenizer
    scores = masked_lm.score(["ab c.", ""], batch_size=3)
    pieces, expected = tokenizer.tokenize("ab c."), 0.0
    assert pieces == ["a", "##b", "c", "."]
    for place, piece in enumerate(pieces):
        features = tokenizer("ab c.")
        features["input_ids"][0, place + 1] = tokenizer.mask_id
        features["masked_lm_positions"] = np.array([[place + 1]])
        logits = np.asarray(masked_lm.model(features)["masked_lm_logits"])[0, 0]
        expected += log_softmax(logits)[tokenizer.pieces.index(piece)]
    np.testing.assert_allclose(scores, [expected, 0], atol=1e-5)


def test_vectors_are_pooled_hidden_states(encoder):
    vectors = {pooling: encoder.encode(PLAIN, pooling, batch_size=2) for pooling in POOLING}
    first = encoder.encode(PLAIN, "mean", layer=0)
    assert first.dtype == vectors["mean"].dtype == np.float32
    for number, text in enumerate(PLAIN):
        features = encoder.tokenizer(text, max_length=16)
        outputs = encoder.model(features, output_embeddings=True)
        hidden, pooled, embedded = (
            np.asarray(outputs[name])[0]
            for name in ("sequence_output", "pooled_output", "projected_embeddings")
        )
        for found, expected in [
            (vectors["mean"], hidden.mean(axis=0)),
            (vectors["cls"], hidden[0]),
            (vectors["pooler"], pooled),
            (first, embedded.mean(axis=0)),
        ]:
            np.testing.assert_allclose(found[number], expected, atol=1e-5)


def test_similarity_is_the_cosine(encoder):
    vectors = encoder.encode(PLAIN, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    cosines = vectors @ vectors.T
    np.testing.assert_allclose(encoder.similarity(PLAIN[:2], PLAIN), cosines[:2], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(3 * vectors), cosines, atol=1e-6)
    assert encoder.encode([]).shape == (0, encoder.model.config.hidden_size)


def test_invalid_arguments_are_named(masked_lm, encoder, tmp_path):
    for call, message in [
        (lambda: masked_lm.fill_mask(["a [MASK]", "b"]), "`texts`[1]: contains no [MASK]"),
        (
            lambda: masked_lm.fill_mask("a " * 20 + "[MASK]"),
            "`texts`[0]: 23 tokens; the model reads at most 16",
        ),
        (lambda: masked_lm.fill_mask("[MASK]", top_k=0), "`top_k`=0: must be at least 1"),
        (
            lambda: masked_lm.fill_mask("[MASK]", targets=["a", "cat"]),
            "`targets`[1]='cat': must be one token of the vocabulary, but is c ##a ##t",
        ),
        (lambda: masked_lm.score(["a", 5]), "`texts`[1]: must be a text, not 5 (int)"),
        (lambda: encoder.encode("a", "max"), "`pooling`=max: must be one of mean, cls, pooler"),
        (lambda: encoder.encode("a", layer=2), "`layer`=2: must be from -2 to 1"),
        (
            lambda: encoder.encode("a", max_length=17),
            "`max_length`=17: the model reads at most 16 tokens",
        ),
        (
            lambda: encoder.encode("a", "pooler", layer=0),
            "`pooling`=pooler: reads the last layer; leave out `layer`",
        ),
    ]:
        assert refusal(call) == message
    classifier = write_trained(tmp_path / "classifier", "classifier")
    with pytest.raises(
        InputError, match="has no masked-LM head, but is a model of kind classifier"
    ):
        albert_tf.MaskedLM.from_preset(classifier)
