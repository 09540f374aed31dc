"""`[MASK]` and the like in text are text, and the symbol on request; unknown characters."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.sentencepiece import read_model, with_control_pieces, without_dummy_prefix
from albert_tf.tokenizers.unknown import UnknownCharacters, describe_unknown, texts_at
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS
from tests.conftest import random_inputs
from tests.support import references

LINES = ["the cat [MASK] sat (on) the mat, 12, or [CLS] not", "a dog [SEP] ran <pad> hills"] * 20


def train(control_symbols: str | None = None, **settings) -> bytes:
    return references.trained_sentencepiece(LINES, 60, control_symbols, **settings)


@pytest.fixture(scope="module", params=["user-defined", "control", "wordpiece"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    if request.param == "wordpiece":
        path = folder / "vocab.txt"
        path.write_text("\n".join([*SPECIAL_SYMBOLS, "[", "]", "the", "cat", "s", ".", "mask"]))
    else:
        path = folder / "small.model"
        kind = "user_defined" if request.param == "user-defined" else "control"
        symbols = "[CLS],[SEP],[MASK]" + (",<pad>,(" if kind == "user_defined" else "")
        path.write_bytes(train(**{f"{kind}_symbols": symbols}))
    return Tokenizer.load(str(path), do_lower_case=False)


def test_names_in_text_are_text(tokenizer):
    for name, id in tokenizer.special_symbols().items():
        if id != tokenizer.unk_id:
            assert id not in tokenizer.encode(f"the {name} cat {name}s{name}")
            assert id not in tokenizer.encode_with_offsets(name)[0]
            assert id not in tokenizer.replacement_ids
    if "(" in tokenizer.pieces:  # a symbol of the user
        assert "(" in tokenizer.tokenize("a (cat")


def test_names_on_request_are_symbols(tokenizer):
    for name, id in tokenizer.special_symbols().items():
        assert tokenizer.encode(name, special_symbols=True) == [id]
        around = [*tokenizer.encode("the cat"), id, *tokenizer.encode("cat.")]
        for text in (f"the cat {name} cat.", f" the cat{name}\tcat. ", f"the cat\n{name}  cat."):
            assert tokenizer.encode(text, special_symbols=True) == around
            tokens = tokenizer.tokenize(text, special_symbols=True)
            assert tokens.count(name) == 1
            assert len(tokens) == len(around)
    mask = tokenizer.pieces[tokenizer.mask_id]
    assert tokenizer.encode(mask * 2, special_symbols=True) == [tokenizer.mask_id] * 2


@pytest.mark.integration
@random_inputs(80)
@given(data=st.data())
def test_any_text_with_symbols(tokenizer, data):
    names = list(tokenizer.special_symbols())
    parts = st.sampled_from([*names, " ", "\t", "the", "cat", "s.", "12,", "[", "]"])
    text = "".join(data.draw(st.lists(parts, max_size=8)))
    ids, offsets = tokenizer.encode_with_offsets(text, special_symbols=True)
    assert ids.tolist() == tokenizer.encode(text, special_symbols=True)
    assert len(tokenizer.tokenize(text, special_symbols=True)) == len(ids)
    assert (np.diff(offsets, axis=0) >= 0).all()
    for name, id in tokenizer.special_symbols().items():
        found = [text[start:end] for start, end in offsets[ids == id]]
        if id != tokenizer.unk_id:
            assert found == [name] * text.count(name)
    if not any(name in text for name in names):
        assert ids.tolist() == tokenizer.encode(text)


def test_a_prompt():
    tokenizer = Tokenizer.load(str(references.OWN_VOCABULARY))
    text = "[CLS] The name of the file is [MASK].[SEP] [MASK]s, 1999, [mask]"
    assert tokenizer.tokenize(text, special_symbols=True) == [
        "[CLS]", "▁the", "▁name", "▁of", "▁the", "▁file", "▁is", "[MASK]", ".", "[SEP]", "[MASK]",
        "s", ",", "▁", "19", "99", ",", "▁[", "mask", "]",
    ]  # fmt: skip
    ids, offsets = tokenizer.encode_with_offsets(text, special_symbols=True)
    assert ids.tolist() == tokenizer.encode(text, special_symbols=True)
    assert text[slice(*offsets[7])] == "[MASK]"
    assert text[slice(*offsets[8])] == "."


def test_changed_models_are_as_before_in_all_else():
    own = references.OWN_VOCABULARY.read_bytes()
    for serialized in (own, train(user_defined_symbols="(,[MASK]")):
        model = read_model(serialized)
        changed = read_model(without_dummy_prefix(serialized))
        assert not changed.normalizer_spec.add_dummy_prefix
        changed.normalizer_spec.add_dummy_prefix = True
        model.normalizer_spec.add_dummy_prefix = True
        assert changed == model
        changed = read_model(with_control_pieces(serialized, ["("]))
        for old, new in zip(model.pieces, changed.pieces, strict=True):
            assert new.type == (new.CONTROL if new.piece == "(" else old.type)


KNOWN = "abc中国。"


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    path = tmp_path_factory.mktemp("unknown") / "vocab.txt"
    pieces = [*SPECIAL_SYMBOLS, *KNOWN, *(f"##{c}" for c in "abc")]
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
    sentencepiece = Tokenizer.load(str(references.OWN_VOCABULARY))
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
