"""Unknown tokens: how many, and because of which characters."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import UnknownCharacters, describe_unknown, texts_at
from tests.conftest import GOLDEN

KNOWN = "abc中国。"


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    path = tmp_path_factory.mktemp("unknown") / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *KNOWN, *(f"##{c}" for c in "abc")]
    path.write_text("\n".join(pieces) + "\n", "utf-8")
    return Tokenizer.load(str(path))


@given(st.lists(st.text(KNOWN + "xé笸“ \u0301", max_size=8)))
def test_each_unknown_character_is_counted(wordpiece, texts):
    expected = Counter(c for text in texts for c in text if c in "xé笸“")
    assert UnknownCharacters(wordpiece).count(texts) == expected
    encoded = wordpiece.encode_batch(texts)
    positions = np.flatnonzero(np.concatenate([[], *encoded]) == wordpiece.unk_id)
    with_unknown = [n for n, text in enumerate(texts) if set(text) & set("xé笸“")]
    assert texts_at(positions, np.array([*map(len, encoded)])).tolist() == with_unknown


def test_sentencepiece_and_words_that_are_too_long(wordpiece):
    sentencepiece = Tokenizer.load(str(GOLDEN / "own_text" / "vocabulary.model"))
    found = UnknownCharacters(sentencepiece).count(["the 中国 model", "of 中 data"])
    assert found == {"中": 2, "国": 1}
    word = "a" * 201
    assert wordpiece.encode(word) == [wordpiece.unk_id]
    assert UnknownCharacters(wordpiece).count([word]) == {}
    assert UnknownCharacters(wordpiece).in_unknown_tokens([f"a {word} b", "x", "b"]) == (2, 202)


def test_the_line_has_share_and_characters():
    assert describe_unknown(3, 2000, {"x": 1, "“": 7, "\u200b": 7}, 0.01) == (
        "0.15% of the tokens (3 of 2,000) are unknown to the vocabulary, and with them 1.00% of "
        "the characters, most often because of U+200B “ x"
    )
    assert describe_unknown(1, 1, {}, 1.0).endswith("with them 100.00% of the characters")
