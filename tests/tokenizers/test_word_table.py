"""Words whose ids are remembered get the ids that they have in the whole text."""

import itertools
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenizers import Tokenizer, word_table
from albert_tf.tokenizers.normalization import Normalization
from tests.conftest import random_inputs, slow
from tests.support import references

SYMBOLS = ["[CLS]", "[SEP]", "[MASK]"]
WORDPIECES = [
    "[PAD]", "[UNK]", *SYMBOLS, *"abcdefσς.,'", "##e", "##b", "ab", "##cd", "中", "##σ", "##ς",
]  # fmt: skip

# What the rules about words speak of: punctuation and digits next to letters, accents, kinds of
# white space, sigmas, characters that are dropped, expand or become spaces.
characters = st.sampled_from(
    "aabbccddeeellll   ..,,''--:12390éßΣςσİ中文´¨▁\u00ad\u200b\u0301\x0b\x0c\x1c\x01…ﷺ\U0001f600"
) | st.characters(exclude_categories=["Cs"])
texts = st.lists(st.text(characters, max_size=40), max_size=8)


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def path(request, tmp_path_factory) -> pathlib.Path:
    if request.param == "sentencepiece":
        return references.OWN_VOCABULARY
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(WORDPIECES), "utf-8")
    return path


@pytest.fixture(scope="module", params=["lower", "kept"])
def tokenizer(request, path) -> Tokenizer:
    form = "NFKC" if path.suffix == ".model" else "NFC"
    kept = Normalization(keep_accents=True, unicode_form=form)
    recorded = kept if request.param == "kept" else Normalization()
    return Tokenizer.load(str(path), request.param == "lower", recorded)


def check(tokenizer: Tokenizer, texts: list[str]) -> None:
    ids, lengths = tokenizer.encode_flat(texts)
    assert (ids.dtype, len(lengths), sum(lengths)) == (np.int32, len(texts), len(ids))
    found = np.split(ids, np.cumsum(lengths))[:-1]
    for text, one, expected in zip(texts, found, tokenizer.encode_batch(texts), strict=True):
        assert one.tolist() == expected.tolist(), repr(text)


def train(**options) -> bytes:
    lines = ["the cat sat on the mat , it sat", "a dog ran and the dog sat on it", "1,2 or 3,4"]
    return references.trained_sentencepiece(lines * 20, 320, **options)


@pytest.mark.integration
@random_inputs(100)
@given(texts=texts)
def test_ids_are_those_of_whole_texts(tokenizer, texts):
    check(tokenizer, texts)


@pytest.mark.parametrize(("words", "key_bytes"), [(64, 10_000), (1024, 200)])
def test_a_full_table_is_emptied(path, monkeypatch, words, key_bytes):
    monkeypatch.setattr(word_table, "_MAX_WORDS", words)
    monkeypatch.setattr(word_table, "_SLOTS", 2 * words)
    monkeypatch.setattr(word_table, "_MAX_KEY_BYTES", key_bytes)
    tokenizer = Tokenizer.load(str(path))
    found = ["".join(word) for word in itertools.product("abcde", "bde", "ace", ["d", "ab", ""])]
    joined = [" ".join(found[first : first + 5]) for first in range(len(found))]
    check(tokenizer, joined + [text.replace(" ", ",", 2) for text in joined])
    assert tokenizer._table._count < 64 < len(found)


def test_the_form_of_a_sigma_depends_on_the_next_word(tokenizer):
    check(tokenizer, ["aΣ.b aΣ. b aΣ", "a'Σ 'Σ a'Σ'b", "aΣ\x0b.b"])


@pytest.mark.parametrize("size", [60, 70, 990, 1100, 99_000, 110_000])
def test_long_words_and_long_texts(tokenizer, size):
    check(tokenizer, ["a b", "d " + "a" * size + " b", "", "ab, " * (size // 4) + "c", "d"])


def test_rounding_decides_between_equal_segmentations(shared):
    """In SentencePiece; the words "eee" and "eeeee" have two best segmentations each."""
    english = Tokenizer.load(str(shared(references.ENGLISH_VOCABULARY)))
    assert english.tokenize("eee eeeee") == ["▁", "ee", "e", "▁", "ee", "ee", "e"], "as published"
    texts = ["x" * (number % 7) + " y, z." * number + " eee eeeee" for number in range(150)]
    check(english, texts)


@pytest.mark.parametrize(
    ("options", "are_independent"),
    [
        ({"split_by_whitespace": False}, False),
        ({"treat_whitespace_as_suffix": True}, False),
        ({"add_dummy_prefix": False}, False),
        ({"remove_extra_whitespaces": False}, False),
        ({"user_defined_symbols": ["the▁cat"]}, False),
        ({"model_type": "bpe"}, False),
        ({}, True),
        ({"normalization_rule_name": "identity"}, True),
        ({"byte_fallback": True}, True),
        ({"user_defined_symbols": ["t,i"]}, True),
    ],
)
def test_models_in_which_words_depend_on_each_other_or_not(options, are_independent, tmp_path):
    (tmp_path / "a.model").write_bytes(train(**options))
    tokenizer = Tokenizer.load(str(tmp_path / "a.model"))
    assert (tokenizer._table is not None) == are_independent
    texts = ["the cat  sat on the mat,it sat", " a dog , ran", "on the mat it sat\u00a8"]
    check(tokenizer, [*texts, "~~ ~ @ ~@", "on\u00a8it ☃ ☃", "on▁ it ▁"])


def test_words_around_an_unknown_space(tmp_path):
    """Unknown characters next to each other are one token."""
    model = sentencepiece_model_pb2.ModelProto.FromString(train())
    for piece in model.pieces:
        if piece.piece == "▁":
            piece.type = piece.UNUSED
    (tmp_path / "a.model").write_bytes(model.SerializeToString())
    check(Tokenizer.load(str(tmp_path / "a.model")), ["☃ ☃ @ b"])


@pytest.mark.integration
@pytest.mark.parametrize(
    "vocabulary",
    [
        *("albert_en_vocab/30k-clean.model", "chinese/vocab.txt"),
        *slow("german_vocab/30k-clean-de-cased.model"),
    ],
)
def test_real_texts(vocabulary, shared):
    tokenizer = Tokenizer.load(str(shared(f"data/{vocabulary}")))
    paths = sorted(shared("data").rglob("*.t[xs][tv]"))
    declarations = [path for path in paths if path.parent.name == "udhr"]
    for path in sorted({*paths}.difference(declarations) | {*declarations[::6]}):
        check(tokenizer, path.read_text("utf-8")[:10_000].split("\n"))
