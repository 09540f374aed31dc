"""Bits per character: the same for a text under any vocabulary, if it is predicted as well."""

import math

import numpy as np
import pytest

from albert_tf.modeling.losses import PretrainingObjective, means
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.held_out import characters_of
from tests.support.models import letters
from tests.support.references import OWN_VOCABULARY, trained_sentencepiece

TEXT = "the cat sat on the mat, 1999."


@pytest.fixture
def vocabularies(tmp_path) -> dict[str, Tokenizer]:
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*symbols, "the", "cat", "sat", "on", "mat", ",", "1999", "."]
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words))
    (tmp_path / "letters.txt").write_text(letters(59) + "1\n##9\n")
    lines = ["the cat sat on a mat", "hat on cat"] * 20
    model = trained_sentencepiece(lines, 290, byte_fallback=True, character_coverage=1.0)
    (tmp_path / "bytes.model").write_bytes(model)
    named = {name: tmp_path / name for name in ("words.txt", "letters.txt", "bytes.model")}
    named["own"] = OWN_VOCABULARY
    return {name: Tokenizer.load(path) for name, path in named.items()}


def test_a_text_has_as_many_characters_under_every_vocabulary(vocabularies):
    expected = len(TEXT.replace(" ", ""))
    for name, tokenizer in vocabularies.items():
        ids = tokenizer.encode(TEXT)
        assert tokenizer.unk_id not in ids, name
        counts = characters_of(tokenizer)
        assert counts.shape == (tokenizer.vocab_size,)
        assert counts[ids].sum() == expected, name
        specials = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.mask_id]
        assert (counts[specials] == -1).all(), name
    of_bytes = vocabularies["bytes.model"]
    ids = of_bytes.encode("日本 é")
    assert len(ids) > 3
    assert characters_of(of_bytes)[ids].sum() == 3


def bits_per_character(tokenizer: Tokenizer, logits, unknown: int = 0) -> tuple[float, float]:
    """Return the bits per character and the loss of TEXT, and of unknown tokens, all masked."""
    ids = np.array([tokenizer.encode(TEXT) + [tokenizer.unk_id] * unknown])
    batch = {
        "input_ids": ids,
        "masked_lm_ids": np.pad(ids, [(0, 0), (0, 2)], mode="edge"),  # without weight
        "masked_lm_weights": np.pad(np.ones(ids.shape, np.float32), [(0, 0), (0, 2)]),
    }
    objective = PretrainingObjective("none", characters_of(tokenizer))
    outputs = {"masked_lm_logits": np.float32(logits(tokenizer, batch["masked_lm_ids"]))}
    found = means(objective.sums(outputs, batch), objective.weights(batch))
    assert objective.losses == ("masked_lm_loss",), "it is not learned"
    return found["characters_loss"] / math.log(2), found["masked_lm_loss"]


def test_a_model_that_knows_nothing_by_hand(vocabularies):
    def uniform(tokenizer, ids):
        return np.zeros((*ids.shape, tokenizer.vocab_size))

    characters = len("thecatsatonthemat,1999.")
    words, _ = bits_per_character(vocabularies["words.txt"], uniform)
    assert words == pytest.approx(9 * math.log2(13) / characters)
    by_letter, _ = bits_per_character(vocabularies["letters.txt"], uniform)
    assert by_letter == pytest.approx(math.log2(vocabularies["letters.txt"].vocab_size))
    with_unknown, _ = bits_per_character(vocabularies["words.txt"], uniform, unknown=3)
    assert with_unknown == pytest.approx(words)


def test_words_of_equal_probability_have_equal_bits(vocabularies):
    def with_probability(tokenizer, ids):
        """Give every token the share of 1/2 for a word that its characters are of the word."""
        tokens = tokenizer.encode(TEXT)
        counts, starts = characters_of(tokenizer)[tokens], tokenizer.word_starts[tokens]
        word = np.cumsum(starts) - 1
        share = counts / np.bincount(word, counts)[word]
        right = np.full(ids.shape, 0.5)
        right[0, : len(tokens)] = 0.5**share
        others = (1 - right) / (tokenizer.vocab_size - 1)
        logits = np.repeat(np.log(others)[..., None], tokenizer.vocab_size, axis=-1)
        np.put_along_axis(logits, ids[..., None], np.log(right)[..., None], axis=-1)
        return logits

    words, loss = bits_per_character(vocabularies["words.txt"], with_probability)
    by_letter, of_letters = bits_per_character(vocabularies["letters.txt"], with_probability)
    assert words == pytest.approx(by_letter) == pytest.approx(9 / 23)
    assert of_letters < loss / 2, "whereas the loss of a token depends on the vocabulary"


def test_a_token_predicted_right_counts_by_its_characters(vocabularies):
    tokenizer = vocabularies["words.txt"]
    ids = np.array([tokenizer.encode("the 1999 .") + [tokenizer.unk_id]])
    answers = np.array([tokenizer.encode("cat 1999 .") + [tokenizer.unk_id]])
    batch = {"input_ids": ids, "masked_lm_ids": ids, "masked_lm_weights": np.ones((1, 4))}
    objective = PretrainingObjective("none", characters_of(tokenizer))
    outputs = {"masked_lm_logits": np.eye(tokenizer.vocab_size, dtype=np.float32)[answers]}
    found = means(objective.sums(outputs, batch), objective.weights(batch))
    assert found["characters_accuracy"] == pytest.approx(5 / 8)
    assert found["masked_lm_accuracy"] == pytest.approx(3 / 4, abs=1e-4)
