"""Where in the raw text each token comes from."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.normalization import (
    DEFAULT_NORMALIZATION,
    Normalization,
    preprocess,
    preprocess_with_spans,
)
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS, normalize_with_spans
from tests.conftest import random_inputs
from tests.support import references

NASTY = st.text(
    st.one_of(
        st.sampled_from(
            "ab cAB zé\u0301\u0323ﬁﬃ中国年カ\uff9eİßΣς’“”``''\"-–—1239,,.\u00a0\t\n\x00\x1c"
            "\x85\u200b\u200d\ufe0f👩🏽▁½²¨Åㅏ각\u1100\u1161"
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)


KEPT = Normalization(keep_accents=True, unicode_form="NFKC")
COMPOSED = Normalization(keep_accents=True, unicode_form="NFC")


@pytest.fixture(
    scope="module",
    params=["lower", "cased", "kept", "bytes", "wordpiece", "composed", "english", "chinese"],
)
def tokenizer(request, shared, tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    if request.param in ("lower", "cased", "kept"):
        path = str(references.OWN_VOCABULARY)
        kept = KEPT if request.param == "kept" else Normalization()
        return Tokenizer.load(path, request.param == "lower", kept)
    if request.param == "english":
        return Tokenizer.load(str(shared(references.ENGLISH_VOCABULARY)))
    if request.param == "bytes":
        path = folder / "bytes.model"
        lines = ["the cat sat on 19, mats", "a dog ran over 1, 2,"] * 20
        path.write_bytes(references.trained_sentencepiece(lines, 300, byte_fallback=True))
        return Tokenizer.load(str(path))
    if request.param in ("wordpiece", "composed"):
        path = folder / "vocab.txt"
        letters = "abceéz19,.ß中ﬁ"
        path.write_text("\n".join([*SPECIAL_SYMBOLS, *letters, *(f"##{c}" for c in letters)]))
        kept = COMPOSED if request.param == "composed" else Normalization()
        return Tokenizer.load(str(path), False, kept)
    return Tokenizer.load(str(shared("data/chinese/vocab.txt")))


def check(tokenizer: Tokenizer, text: str) -> np.ndarray:
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids.tolist() == tokenizer.encode(text)
    assert ids.dtype == offsets.dtype == np.int32
    assert offsets.shape == (len(ids), 2)
    assert (offsets[:, 0] <= offsets[:, 1]).all()
    assert (np.diff(offsets, axis=0) >= 0).all()
    assert ((offsets >= 0) & (offsets <= len(text))).all()
    for start, end in offsets:
        assert text[start:end] == text[start:end].strip()
    return offsets


@pytest.mark.integration
@random_inputs(100)
@given(text=NASTY)
def test_offsets_of_any_text(tokenizer, text):
    covered = np.zeros(len(text), bool)
    for start, end in check(tokenizer, text):
        covered[start:end] = True
    for character, is_covered in zip(text, covered, strict=True):
        # Controls and the like may go; what is left as a token when alone never does.
        if unicodedata.category(character)[0] in "LNPS" and any(
            end > start for start, end in tokenizer.encode_with_offsets(character)[1]
        ):
            assert is_covered, character


@random_inputs(100)
@given(NASTY, st.booleans(), st.sampled_from([DEFAULT_NORMALIZATION, KEPT, COMPOSED]))
def test_spans_of_the_normalized_text(text, do_lower_case, normalization):
    normalization = Normalization(do_lower_case).otherwise(normalization)
    processed, spans = preprocess_with_spans(text, normalization)
    assert processed == preprocess(text, normalization)
    assert len(spans) == len(processed)
    # A character's own span holds what it was made from.
    for character, (start, end) in zip(processed, spans, strict=True):
        if not character.isspace():
            assert character.lower() in preprocess(text[start:end], normalization).lower() or (
                character == "ς"
            )
    found, spans = normalize_with_spans(text, normalization)
    assert len(spans) == len(found)


@pytest.mark.parametrize("name", references.NAMES)
def test_a_piece_stands_for_its_own_characters(name, shared):
    reference = references.tokenizer_reference(name, shared)
    tokenizer = Tokenizer.load(str(reference.vocabulary))
    texts = [example["text"] for example in reference.examples]
    if name == "en_30k":
        articles = json.loads(next(shared("data/squad").glob("*.json")).read_text("utf-8"))["data"]
        paragraphs = [p for article in articles for p in article["paragraphs"]]
        texts += [p["context"] for p in paragraphs[:60]]
    for text in texts:
        offsets = check(tokenizer, text)
        for piece, (start, end) in zip(tokenizer.tokenize(text), offsets, strict=True):
            surface = unicodedata.normalize("NFKC", piece.lstrip("▁")).replace("⁄", "/")
            raw = unicodedata.normalize("NFKC", tokenizer.preprocess(text[start:end]))
            raw = raw.replace("⁄", "/")
            # Several pieces may share a character that was expanded.
            assert surface == raw or (surface in raw and not text[start:end].isascii()), text
