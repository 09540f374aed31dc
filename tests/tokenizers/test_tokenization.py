"""The ids of the original tokenizer, and what word boundaries it sees."""

import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.normalization import DEFAULT_NORMALIZATION, Normalization, preprocess
from albert_tf.tokenizers.words import starts_word
from tests.support import references

LINES = ["the cat sat on the mat", "a dog ran over the hill"] * 20
SPECIALS = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.fixture(scope="module", params=references.NAMES)
def reference(request, shared) -> references.TokenizerReference:
    return references.tokenizer_reference(request.param, shared)


@pytest.fixture(scope="module")
def tokenizer(reference) -> Tokenizer:
    return Tokenizer.load(str(reference.vocabulary))


@pytest.mark.parametrize("case", ["lower", "cased"])
def test_ids_and_tokens_of_the_original(reference, case):
    tokenizer = Tokenizer.load(str(reference.vocabulary), do_lower_case=case == "lower")
    examples = reference.examples
    assert len(examples) >= 140
    for example in examples:
        expected = example[case]
        assert tokenizer.preprocess(example["text"]) == expected["preprocessed"]
        assert tokenizer.tokenize(example["text"]) == expected["tokens"]
        assert tokenizer.encode(example["text"]) == expected["ids"]
    batch = tokenizer.encode_batch([example["text"] for example in examples])
    assert [ids.tolist() for ids in batch] == [example[case]["ids"] for example in examples]
    assert {ids.dtype for ids in batch} == {np.dtype(np.int32)}


def test_ids_and_tokens_of_the_original_without_its_preprocessing(shared, monkeypatch):
    reference = references.tokenizer_reference("en_30k", shared)
    tokenizer = Tokenizer.load(str(reference.vocabulary))
    monkeypatch.setattr(tokenizer, "preprocess", lambda text: text)
    for example in reference.examples:
        assert tokenizer.tokenize(example["text"]) == example["raw"]["tokens"]
        assert tokenizer.encode(example["text"]) == example["raw"]["ids"]


def test_words_of_equal_scores_split_as_in_the_original(tmp_path):
    # Taken from sentencepiece 0.1.99; 0.2.2 and 0.2.3 put the single letter first.
    model = sentencepiece_model_pb2.ModelProto.FromString(references.OWN_VOCABULARY.read_bytes())
    scores = {"l": -8.80555, "ll": -5.15225}
    for piece in model.pieces:
        piece.score = scores.get(piece.piece, piece.score)
    (tmp_path / "ties.model").write_bytes(model.SerializeToString())
    tokenizer = Tokenizer.load(str(tmp_path / "ties.model"))
    assert tokenizer.tokenize("lll") == ["▁", "ll", "l"]


def test_special_symbols(tokenizer):
    specials = tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id
    assert (*specials, tokenizer.mask_id) == (0, 1, 2, 3, 4)
    assert tokenizer.replacement_ids.tolist() == list(range(5, tokenizer.vocab_size))
    ids = tokenizer.encode("the file")
    assert tokenizer.convert_ids_to_tokens([2, *ids, 3]) == ["[CLS]", "▁the", "▁file", "[SEP]"]
    assert tokenizer.decode(np.array([2, *ids, 3, 0])) == "the file"


def test_word_starts_are_the_original_ones(tokenizer):
    """The rule of the original's `is_start_piece`, on every piece of a vocabulary."""
    special = set('!"#$%&"()*+,-./:;?@[\\]^_`{|}~')
    letters = set("abcdefghijklmnopqrstuvwxyz")

    def is_start_piece(piece):
        if piece.startswith(("▁", "<")) or piece in special:
            return True
        return not all(character.lower() in letters | special for character in piece)

    # Control symbols are counted as words where examples are built.
    for id in range(5, tokenizer.vocab_size):
        assert tokenizer.word_starts[id] == is_start_piece(tokenizer.pieces[id]), id


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("▁wort", True), ("größe", False), ("ция", False), ("λόγος", False), ("مات", False),
        ("中国", True), ("カ", True), ("ไทย", True), ("12", True), ("'", True), ("s", False),
        ("co-op", False), ("-", True), ("€", True), ("<unk>", True),
        # Scripts without spaces, their vowel signs, and neighbors that are written with spaces.
        ("ꦲꦏ", True), ("ᬅ", True), ("ꀀ", True), ("ᨾ", True), ("ꪀ", True), ("ᥐ", True),
        ("ー", True), ("々", True), ("〇", True), ("ｶ", True), ("\u0e31น", False),
        ("\ua9b4", False), ("\u3099", False), ("한국", False), ("ㅋㅋ", False), ("ＡＢ", False),
        ("བོད", False), ("ກ", True), ("ິ", False), ("ក", True), ("ិ", False), ("က", True),
        ("ိ", False), ("ᬶ", False), ("ᨠ", True), ("ᩥ", False), ("ꪴ", False), ("ᦀ", True),
    ],
)  # fmt: skip
def test_word_starts_in_other_scripts(piece, expected):
    assert starts_word(piece) is expected


@given(st.text())
def test_preprocessing_is_stable_and_leaves_one_kind_of_space(text):
    once = preprocess(text, DEFAULT_NORMALIZATION)
    assert "  " not in preprocess(once, DEFAULT_NORMALIZATION)
    assert not any(c in once for c in "\n\t\r\u00e9\u0301")
    cased = Normalization(do_lower_case=False, keep_accents=False)
    assert preprocess(text, cased).lower() == once


@given(texts=st.lists(st.text("ab 1239,.é'-ß", max_size=20), max_size=5))
def test_a_batch_is_what_its_texts_are(tokenizer, texts):
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert ids.tolist() == tokenizer.encode(text)
        pieces = tokenizer.tokenize(text)
        assert len(pieces) == len(ids)
        known = ids != tokenizer.unk_id
        tokens = np.array(tokenizer.convert_ids_to_tokens(ids), object)
        assert (tokens[known] == np.array(pieces, object)[known]).all()
        # The rule that keeps digits and a comma apart.
        assert not any(len(p) > 1 and p[-1] == "," and p[-2].isdigit() for p in pieces)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.model", None, "no such vocabulary file"),
        ("empty.model", b"", "not a SentencePiece model"),
        ("text.model", b"the cat sat on the mat\n" * 50, "not a SentencePiece model"),
        ("plain.model", references.trained_sentencepiece(LINES, 20, None), "the vocabulary lacks"),
        ("vocab.json", b"{}", "must end in .model"),
        ("none.txt", None, "no such vocabulary file"),
        ("empty.txt", b"", r"lacks \[PAD\], .*, \[MASK\]; .*--model_type=wordpiece"),
        ("four.txt", SPECIALS[:-8], r"lacks \[MASK\];"),
        ("latin.txt", b"caf\xe9", "line 1 is not UTF-8"),
    ],
)
def test_unusable_vocabularies_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        Tokenizer.load(str(path))
    assert str(error.value).removeprefix("`path`=").startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["false", 0, np.nan])
def test_lower_casing_is_a_bool(value):
    with pytest.raises(InputError, match=rf"^`do_lower_case`={value!r}: must be True, False or "):
        Tokenizer.load("none.txt", do_lower_case=value)


def test_no_combining_mark_is_beyond_where_they_are_looked_for():
    assert not [c for c in map(chr, range(0x20000, sys.maxunicode + 1)) if unicodedata.combining(c)]
