"""`[MASK]` and the like in text are text, and the symbol on request."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tokenizers import Tokenizer, sentencepiece_model
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS
from tests.conftest import random_inputs
from tests.support import references
from tests.support.vocabularies import trained_sentencepiece

SYMBOLS = "[CLS],[SEP],[MASK],<pad>"


LINES = ["the cat [MASK] sat (on) the mat, 12, or [CLS] not", "a dog [SEP] ran <pad> hills"] * 20


def train(control_symbols: str | None = None, **settings) -> bytes:
    return trained_sentencepiece(LINES, 60, control_symbols, **settings)


@pytest.fixture(scope="module", params=["user-defined", "control", "wordpiece"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    if request.param == "wordpiece":
        path = folder / "vocab.txt"
        path.write_text("\n".join([*SPECIAL_SYMBOLS, "[", "]", "the", "cat", "s", ".", "mask"]))
    else:
        path = folder / "small.model"
        kind = "user_defined" if request.param == "user-defined" else "control"
        path.write_bytes(train(**{f"{kind}_symbols": SYMBOLS.removesuffix(",<pad>")}))
    return Tokenizer.load(str(path), do_lower_case=False)


def names(tokenizer: Tokenizer) -> list[str]:
    return list(tokenizer.special_symbols())


def test_user_defined_symbols_in_text_are_text(tmp_path):
    model = train(user_defined_symbols=SYMBOLS + ",(")
    assert 4 in sentencepiece.SentencePieceProcessor(model_proto=model).encode("a [MASK] b")
    (tmp_path / "user.model").write_bytes(model)
    tokenizer = Tokenizer.load(str(tmp_path / "user.model"), do_lower_case=False)
    specials = {0, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
    assert not specials & set(tokenizer.encode("a [MASK] b [CLS][SEP] <pad>"))
    assert not specials & set(tokenizer.replacement_ids.tolist())
    assert "(" in tokenizer.tokenize("a (cat")
    assert tokenizer.mask_id in tokenizer.encode("a [MASK] b", special_symbols=True)
    assert tokenizer.decode([tokenizer.cls_id, tokenizer.mask_id]) == ""


def test_names_in_text_are_text(tokenizer):
    for name, id in tokenizer.special_symbols().items():
        if id != tokenizer.unk_id:
            assert id not in tokenizer.encode(f"the {name} cat {name}s{name}")
            assert id not in tokenizer.encode_with_offsets(name)[0]


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
@random_inputs(200)
@given(data=st.data())
def test_any_text_with_symbols(tokenizer, data):
    parts = st.sampled_from([*names(tokenizer), " ", "\t", "the", "cat", "s.", "12,", "[", "]"])
    text = "".join(data.draw(st.lists(parts, max_size=8)))
    ids, offsets = tokenizer.encode_with_offsets(text, special_symbols=True)
    assert ids.tolist() == tokenizer.encode(text, special_symbols=True)
    assert len(tokenizer.tokenize(text, special_symbols=True)) == len(ids)
    assert (np.diff(offsets, axis=0) >= 0).all()
    for name, id in tokenizer.special_symbols().items():
        found = [text[start:end] for start, end in offsets[ids == id]]
        if id != tokenizer.unk_id:
            assert found == [name] * text.count(name)
    if not any(name in text for name in names(tokenizer)):
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


def test_a_model_file_is_read_as_the_library_reads_it():
    own = references.OWN_VOCABULARY.read_bytes()
    for model in (own, train(user_defined_symbols="(,[MASK]")):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        read = sentencepiece_model.read(model)
        ids = range(processor.get_piece_size())
        assert [p.text for p in read.pieces] == [processor.id_to_piece(id) for id in ids]
        assert [p.score for p in read.pieces] == [processor.get_score(id) for id in ids]
        for id, piece in enumerate(read.pieces):
            assert (piece.type == sentencepiece_model.CONTROL) == processor.is_control(id)
            assert (piece.type == sentencepiece_model.UNKNOWN) == processor.is_unknown(id)
        assert read.add_dummy_prefix
        assert not sentencepiece_model.read(
            sentencepiece_model.without_dummy_prefix(model)
        ).add_dummy_prefix
        changed = sentencepiece_model.read(sentencepiece_model.with_control_pieces(model, ["("]))
        kinds = {p.text: p.type for p in changed.pieces}
        assert kinds["("] == sentencepiece_model.CONTROL
        without_pieces = [dataclasses.replace(each, piece_messages=[]) for each in (changed, read)]
        assert without_pieces[0] == without_pieces[1]
        assert [p for p in changed.pieces if p.text != "("] == [
            p for p in read.pieces if p.text != "("
        ]
