"""The ids of BERT's `tokenization.py`, against its rules written out character by character."""

import pathlib
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tokenizers import Tokenizer, wordpiece
from albert_tf.tokenizers.normalization import Normalization
from tests.conftest import random_inputs

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *SPECIALS, "[unused1]", "the", "un", "##aff", "##able", "##a", "a", "##b", "b", "##c", "cat",
    "café", "cafe", "mask", "[", "]", ",", ".", "'", "$", "^", "中", "国", "##国", "ο", "##ς",
    "##σ", "i", "##s", "2010", "年", "！", "unaf", "ß", "Ab", "##B", "##ิ",
]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", "utf-8")
    return path


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request, path) -> Tokenizer:
    return Tokenizer.load(str(path), do_lower_case=request.param)


IDEOGRAPHS = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip


def expected_words(text: str, do_lower_case: bool) -> list[str]:
    """Clean, put ideographs apart, split at spaces; each word: lower-case, no accents, cut."""
    spaced = ""
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category == "Zs":
            spaced += " "
        elif any(low <= ord(c) <= high for low, high in IDEOGRAPHS):
            spaced += f" {c} "
        elif c != "\ufffd" and category not in ("Cc", "Cf"):
            spaced += c
    found = []
    for word in spaced.split():
        if do_lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        apart = ""
        for c in word:
            ascii_sign = "!" <= c <= "~" and not c.isalnum()
            is_mark = ascii_sign or unicodedata.category(c).startswith("P")
            apart += f" {c} " if is_mark else c
        found += apart.split()
    return found


def expected_pieces(word: str, vocabulary: set[str]) -> list[str]:
    """Return the longest piece that begins the rest of the word, again and again."""
    found, rest, prefix = [], word, ""
    while rest and len(word) <= 200:
        fits = [n for n in range(1, len(rest) + 1) if prefix + rest[:n] in vocabulary]
        if not fits:
            return ["[UNK]"]
        found.append(prefix + rest[: max(fits)])
        rest, prefix = rest[max(fits) :], "##"
    return found or ["[UNK]"]


def check(tokenizer: Tokenizer, text: str) -> None:
    words = expected_words(text, tokenizer.do_lower_case)
    vocabulary = set(tokenizer.pieces)
    pieces = [piece for word in words for piece in expected_pieces(word, vocabulary)]
    assert tokenizer.preprocess(text) == " ".join(words)
    assert tokenizer.tokenize(text) == pieces
    (ids,) = tokenizer.encode_batch([text])
    assert ids.dtype == np.int32
    assert tokenizer.convert_ids_to_tokens(ids) == pieces


_TEXTS = st.text(
    st.one_of(
        st.sampled_from(
            "ab cAB[]mask中国年！ΟΣοσςİßé\u0301\u00ad\ufffd\x00\x0b\u3000\u2028\ue000\U0002b820"
        ),
        st.characters(exclude_categories=["Cs"]),
    )
)


@random_inputs(100)
@given(text=_TEXTS)
def test_pieces_of_any_text(tokenizer, text):
    check(tokenizer, text)


@random_inputs(50)
@given(st.integers(190, 210), st.sampled_from(["a", "é", "中"]))
def test_words_beyond_two_hundred_characters_are_unknown(tokenizer, length, letter):
    check(tokenizer, "cat " + letter * length)


@pytest.mark.integration
def test_every_character_between_letters():
    # The planes without assigned characters, and those for private use, are left out.
    for first in (*range(0, 0x32000, 512), 0xE0000):
        block = map(chr, range(first, first + 512))
        text = " ".join(f"xA{c}Bx" for c in block if unicodedata.category(c) != "Cs")
        assert wordpiece.words(text, wordpiece.resolved(Normalization())) == expected_words(
            text, True
        ), hex(first)


def test_the_chinese_vocabulary(shared):
    path = shared("data/chinese/vocab.txt")
    tokenizer = Tokenizer.load(str(path))
    lines = path.read_text("utf-8").split("\n")[:-1]
    assert tokenizer.vocab_size == len(lines) == 21128
    assert [i for i, (a, b) in enumerate(zip(lines, tokenizer.pieces, strict=True)) if a != b] == [
        343, 13502,
    ]  # a line separator, which the original reads as a space  # fmt: skip
    specials = tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id
    assert (*specials, tokenizer.mask_id) == (0, 100, 101, 102, 103)
    left_out = set(range(21128)) - set(tokenizer.replacement_ids.tolist())
    assert left_out == set(range(104))
    text = shared("data/chinese/news_zh_1.txt").read_text("utf-8")
    for line in text.splitlines()[:60]:
        check(tokenizer, line)
    assert tokenizer.decode(tokenizer.encode("最后的南京老城, hello")) == "最后的南京老城, hello"


def test_word_starts_and_special_symbols(path, tokenizer):
    assert tokenizer.pieces == PIECES
    for piece, starts in zip(PIECES, tokenizer.word_starts, strict=True):
        assert starts == (not piece.startswith("##") or piece == "##国")
    assert tokenizer.replacement_ids.tolist() == list(range(6, len(PIECES)))
    ids = tokenizer.encode("[MASK] [CLS] [PAD] [unused1]")
    assert not set(ids) & {tokenizer.mask_id, tokenizer.cls_id, tokenizer.pad_id, 5}
    assert tokenizer.convert_ids_to_tokens(ids)[:3] == (
        ["[", "mask", "]"] if tokenizer.do_lower_case else ["[", "[UNK]", "]"]
    )


def test_line_ends_and_blank_lines_at_the_end_do_not_count(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join(["\ufeff[PAD]", *SPECIALS[1:], "the", "", ""]).encode())
    assert Tokenizer.load(str(path)).pieces == [*SPECIALS, "the"]
