"""Tokenizers inside a graph give the ids and offsets of the ones in Python, and pack them alike."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.export.graph_packing import HUB_NAMES, TEXTS, PreprocessorExport
from albert_tf.export.graph_tokenizers import graph_tokenizer
from albert_tf.tasks.classification.datasets import Example
from albert_tf.tasks.classification.encoding import featurize
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import Normalization
from tests.conftest import random_inputs
from tests.support import references
from tests.support.served import require_tensorflow_text

require_tensorflow_text()

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# What normalization is about: case, accents, spaces, marks, scripts, and what maps to several.
LETTERS = (
    "aZ1,.' \t\n\x0b\x1c\x85\xa0\u2003\u3000\u200b\xad\x07\0ÀéñÅßİıſΣσςΑΆ᾽ʰ·ǅﬁ½①´¨ﷺ한글각漢字かガｶﾞﾊﾟ"
    "▁🤗👩🏽\u200c\u200d🚀\u0301\u0323\u0329\u0345\u093f\u0958\u09c7\u09be\u0f73\ufffd[]#'<=>"
)

ANY = st.characters(exclude_categories=("Cs", "Cn")) | st.sampled_from(LETTERS)


def tricky_lines(count: int) -> list[str]:
    """Return short texts of characters that are treated in different ways."""
    draw = random.Random(7)
    return ["".join(draw.choices(LETTERS, k=draw.randint(0, 24))) for _ in range(count)]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory) -> str:
    pieces = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abz1.,'[]中日本가", " ", "##b", "##z",
        "##1", "cat", "e", "##e", "ss", "σ", "##ς", "##σ", "i", "##i", "É", "##é", "##z", "e",
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    path.write_text("\n".join(pieces) + "\n", "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def pairs(wordpiece):
    """Return every kind of vocabulary and normalization: the tokenizer, and the one for graphs."""
    files = {"sentencepiece": str(references.OWN_VOCABULARY), "wordpiece": wordpiece}
    tokenizers = {
        (kind, name): Tokenizer.load(files[kind], normalization=NORMALIZATIONS[name])
        for kind, name in KINDS
    }
    found = {key: (each, graph_tokenizer(each)) for key, each in tokenizers.items()}
    for _, in_graph in found.values():  # one by one, its operations take longer
        in_graph.encode = tf.function(in_graph.encode, [TEXTS], autograph=False)
    return found


NORMALIZATIONS = {
    "lower": Normalization(do_lower_case=True),
    "cased": Normalization(do_lower_case=False),
    "NFKC": Normalization(keep_accents=True, unicode_form="NFKC"),
    "NFC": Normalization(keep_accents=True, tokenize_chinese_chars=False, unicode_form="NFC"),
}
KINDS = [
    *itertools.product(["sentencepiece", "wordpiece"], ["lower", "cased"]),
    ("sentencepiece", "NFKC"),
    ("wordpiece", "NFC"),
]


def check(pair, texts: list[str]) -> None:
    """Ids and offsets are those of Python, one by one."""
    tokenizer, in_graph = pair
    encode = in_graph.encode(tf.constant(texts))
    ids, starts, ends = in_graph.encode_with_offsets(tf.constant(texts))
    found = zip(
        texts, encode.to_list(), ids.to_list(), starts.to_list(), ends.to_list(), strict=True
    )
    for text, plain, ids, starts, ends in found:
        expected, offsets = tokenizer.encode_with_offsets(text)
        assert plain == ids == expected.tolist(), repr(text)
        assert [starts, ends] == offsets.T.tolist(), repr(text)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_offsets_of_golden_and_tricky_lines(kind, pairs, shared):
    reference = references.tokenizer_reference("own_text", shared)
    lines = [example["text"] for example in reference.examples] + tricky_lines(300)
    assert len(lines) >= 440
    check(pairs[kind], lines)


@pytest.mark.parametrize("lower", [True, False])
def test_the_published_english_vocabulary(lower, shared):
    reference = references.tokenizer_reference("en_30k", shared)
    tokenizer = Tokenizer.load(str(reference.vocabulary), lower)
    lines = [example["text"] for example in reference.examples] + tricky_lines(300)
    check((tokenizer, graph_tokenizer(tokenizer)), lines)


@pytest.mark.parametrize("kind", KINDS)
@random_inputs(25)
@given(texts=st.lists(st.text(ANY), max_size=8))
def test_ids_of_any_texts(kind, pairs, texts):
    tokenizer, in_graph = pairs[kind]
    expected = [ids.tolist() for ids in tokenizer.encode_batch(texts)]
    assert in_graph.encode(tf.constant(texts, tf.string)).to_list() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_character(kind, pairs):
    tokenizer, in_graph = pairs[kind]
    codes = [*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200)]
    # TensorFlow writes U+FFFD for the code points that are reserved never to be characters.
    codes = [c for c in codes if c & 0xFFFE != 0xFFFE and not 0xFDD0 <= c <= 0xFDEF]
    texts = ["x".join(map(chr, codes[i : i + 64])) for i in range(0, len(codes), 64)]
    expected = [ids.tolist() for ids in tokenizer.encode_batch(texts)]
    for text, ids, found in zip(
        texts, expected, in_graph.encode(tf.constant(texts)).to_list(), strict=True
    ):
        assert found == ids, ascii(text)


def test_words_beyond_two_hundred_characters_are_unknown_or_cut(pairs):
    texts = [f"cat {letter * length} cat" for letter in "aé中" for length in (199, 200, 201, 500)]
    for name in ("lower", "cased", "NFC"):
        check(pairs["wordpiece", name], texts)


def test_the_chinese_vocabulary(shared):
    tokenizer = Tokenizer.load(str(shared("data/chinese/vocab.txt")))
    lines = shared("data/chinese/news_zh_1.txt").read_text("utf-8").splitlines()[:60]
    check((tokenizer, graph_tokenizer(tokenizer)), lines)


def test_words_keep_their_pieces_together(pairs):
    _, in_graph = pairs["wordpiece", "lower"]
    pieces = in_graph.tokenize(tf.constant(["Cat abz, 中日", ""]))
    assert [[len(word) for word in text] for text in pieces.to_list()] == [[1, 3, 1, 1, 1], []]


def test_bytes_that_are_no_text_are_taken_for_unknown_characters(pairs):
    for tokenizer, in_graph in pairs.values():
        found = in_graph.encode(tf.constant([b"a \xff\xc3 b"])).to_list()
        assert found == [tokenizer.encode("a \ufffd\ufffd b")]


@pytest.mark.parametrize("ranks", [1, 2])
def test_packing_as_in_fine_tuning(ranks, pairs):
    tokenizer, in_graph = pairs["wordpiece" if ranks == 2 else "sentencepiece", "lower"]
    preprocessor = PreprocessorExport(in_graph, [tokenizer.path], True, seq_length=12)
    draw = random.Random(1)
    texts = [
        ["".join(draw.choices("abz ", k=draw.randint(0, 20))) for _ in range(30)] for _ in range(2)
    ]
    tokens = [preprocessor.tokenize(tf.constant(part)) for part in texts]
    assert tokens[0].ragged_rank == ranks
    pairs_of_texts = list(zip(*texts, strict=True))
    for length in (5, 8, 12, 40):
        for count in (1, 2):
            examples = [
                Example("", first, second if count == 2 else None, None)
                for first, second in pairs_of_texts
            ]
            expected = featurize(examples, tokenizer, length).padded(length)
            seq_length = None if length == 12 else tf.constant(length)  # traced once for all
            found = preprocessor.bert_pack_inputs(tokens[:count], seq_length=seq_length)
            for here, name in HUB_NAMES.items():
                np.testing.assert_array_equal(
                    found[name], expected[here], f"{length} {count} {name}"
                )
