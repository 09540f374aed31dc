"""Vocabularies laid out as in the original, from a uniform sample, or a clear error."""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS
from data_prep import parallel, sentence_sample, text_units, train_vocabulary, wordpiece_vocabulary
from data_prep.vocabulary_options import VocabularyOptions
from data_prep.vocabulary_types import VOCABULARY_TYPES

ROOT = pathlib.Path(__file__).resolve().parents[2]


# How every vocabulary of the published English models begins.
FIRST_PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *'()"-.–£€']


def sentences_of(*paths, size: int = 0, seed: int = 1, num_processes: int = 1) -> list[str]:
    options = VocabularyOptions(input_file=(), output_prefix="", num_processes=num_processes)
    return sentence_sample.sample_sentences([str(path) for path in paths], size, seed, options)


def test_pieces_are_laid_out_as_in_the_original(model_file):
    pieces = Tokenizer.load(str(model_file)).pieces
    assert pieces[:13] == FIRST_PIECES


def test_the_published_vocabulary_begins_like_that(shared):
    original = Tokenizer.load(str(shared("data/albert_en_vocab/30k-clean.model"))).pieces
    assert original[:13] == FIRST_PIECES


def test_a_vocabulary_has_pieces_of_its_own(model_file):
    pieces = Tokenizer.load(str(model_file)).pieces
    assert len(pieces) == len(set(pieces)) == 1000
    listed = model_file.with_suffix(".vocab").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in listed] == pieces


def test_text_is_lower_cased_without_accents_first(tmp_path):
    (tmp_path / "in.txt").write_text("Ünïcode CAFÉ\n\n \nthe End\n", "utf-8")
    lines = sentences_of(tmp_path / "in.txt")
    prepare = VOCABULARY_TYPES["unigram"].prepare
    assert [prepare(line, True) for line in lines] == ["unicode cafe", "the end"]
    assert [prepare(line, False) for line in lines] == ["Unicode CAFE", "the End"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model_type", "endings"), [("unigram", ("model", "vocab")), ("wordpiece", ("txt",))]
)
def test_the_same_text_gives_the_same_files(corpus, tmp_path, model_type, endings):
    for name in "ab":  # each in a process with hash seeds of its own
        command = [
            "-m", "data_prep.train_vocabulary", f"--model_type={model_type}", "--vocab_size=700",
            f"--input_file={corpus}", f"--output_prefix={tmp_path}/{name}",
            "--input_sentence_size=500",
        ]  # fmt: skip
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    for ending in endings:
        contents = [(tmp_path / f"{name}.{ending}").read_bytes() for name in "ab"]
        assert contents[0] == contents[1]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ending}" for name in "ab" for ending in endings
    }
    assert Tokenizer.load(str(tmp_path / f"a.{endings[0]}")).vocab_size == 700


@pytest.mark.parametrize("model_type", ["unigram", "wordpiece"])
@pytest.mark.parametrize("vocab_size", [30_000, 50_000])
def test_the_size_named_in_the_error_works(corpus, tmp_path, model_type, vocab_size):
    vocabulary_type = VOCABULARY_TYPES[model_type]
    sentences = [vocabulary_type.prepare(line, True) for line in sentences_of(corpus)][:300]
    with pytest.raises(InputError, match=f"`vocab_size`={vocab_size}: too large") as error:
        vocabulary_type.train(sentences, str(tmp_path / "v"), vocab_size)
    assert not list(tmp_path.iterdir())
    size = int(re.search(r"; (\d+) works", str(error.value))[1])
    assert size > 300
    vocabulary_type.train(sentences, str(tmp_path / "v"), size)
    assert Tokenizer.load(str(tmp_path / f"v{vocabulary_type.endings[0]}")).vocab_size == size


@pytest.mark.parametrize("model_type", ["unigram", "wordpiece"])
def test_a_size_below_the_alphabet_is_refused(tmp_path, model_type):
    vocabulary_type = VOCABULARY_TYPES[model_type]
    sentences = ["the quick brown fox jumps over the lazy dog"] * 100
    with pytest.raises(InputError, match=r"`vocab_size`=20: too small.* need (\d+)") as error:
        vocabulary_type.train(sentences, str(tmp_path / "v"), 20)
    assert not list(tmp_path.iterdir())
    if model_type == "wordpiece":
        needed = int(re.search(r"need (\d+)", str(error.value))[1])
        vocabulary_type.train(sentences, str(tmp_path / "v"), needed)
        assert Tokenizer.load(str(tmp_path / "v.txt")).vocab_size == needed


def test_wordpiece_learns_frequent_pairs(tmp_path):
    """The special symbols, the alphabet, then merges, the most frequent pair first."""
    # A word that the tokenizer would not split is not learned from.
    sentences = ["ab " * 5 + "cab " * 3 + "。 中 文 ]"] * 10 + ["z" * 201]
    wordpiece_vocabulary.train(sentences, str(tmp_path / "v"), 15)
    assert (tmp_path / "v.txt").read_text("utf-8").splitlines() == [
        *SPECIAL_SYMBOLS, "]", "a", "b", "c", "。", "中", "文", "##a", "##b", "ab",
    ]  # fmt: skip


def test_wordpiece_drops_rare_characters(tmp_path):
    sentences = ["the cat sat on a mat"] * 5000 + ["the q cat", "aqa"]
    with pytest.raises(InputError, match=r"; (\d+) works") as error:
        wordpiece_vocabulary.train(sentences, str(tmp_path / "v"), 1000)
    size = int(re.search(r"; (\d+) works", str(error.value))[1])
    wordpiece_vocabulary.train(sentences, str(tmp_path / "v"), size)
    tokenizer = Tokenizer.load(str(tmp_path / "v.txt"))
    assert not any("q" in piece for piece in tokenizer.pieces)
    assert tokenizer.tokenize("The cat q") == ["the", "cat", "[UNK]"]


def test_a_wordpiece_vocabulary_covers_its_own_text(corpus, tmp_path):
    flags = {"input_file": (str(corpus),), "output_prefix": str(tmp_path / "v")}
    train_vocabulary.run(VocabularyOptions(**flags, model_type="wordpiece", vocab_size=800))
    tokenizer = Tokenizer.load(str(tmp_path / "v.txt"))
    ids = np.concatenate(tokenizer.encode_batch(sentences_of(corpus)))
    assert (ids == tokenizer.unk_id).mean() < 0.001
    assert len(np.unique(ids)) > 700
    lengths = [len(piece) for piece in tokenizer.pieces]
    assert max(lengths) > 8


def test_the_corpus_is_never_overwritten(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat\n" * 10)
    flags = {"input_file": (str(corpus),), "output_prefix": str(tmp_path / "corpus")}
    with pytest.raises(InputError, match=r"`output_prefix`: .*corpus\.txt is also read, as"):
        train_vocabulary.run(VocabularyOptions(**flags, model_type="wordpiece", vocab_size=30))
    assert corpus.read_text() == "the cat sat\n" * 10


def test_the_sample_is_uniform_and_ordered(tmp_path, monkeypatch):
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 500)
    monkeypatch.setattr(text_units, "_UNITS", 1_000_000)
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, first in zip(paths, (0, 600), strict=True):
        path.write_text("\n\n".join(str(number) for number in range(first, first + 600)))
    counts = np.zeros(1200)
    for seed in range(200):
        chosen = [int(text) for text in sentences_of(*paths, size=100, seed=seed)]
        assert len(set(chosen)) == 100
        assert chosen == sorted(chosen)
        counts[chosen] += 1
    for part in np.split(counts, 4):
        assert abs(part.mean() - 200 / 12) < 1.0
    everything = [str(number) for number in range(1200)]
    assert sentences_of(*paths) == sentences_of(*paths, size=5000) == everything


def test_the_sample_depends_on_the_text_alone(corpus, monkeypatch):
    """Not on workers, units of work, and how many candidates are kept on the way."""
    expected = sentences_of(corpus, size=200)
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 10_000)
    monkeypatch.setattr(text_units, "_UNITS", 1_000_000)
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 10_000)
    assert sentences_of(corpus, size=200) == expected
    assert sentences_of(corpus, size=200, num_processes=2) == expected
    monkeypatch.setattr(sentence_sample, "_SLACK", 100)
    assert sentences_of(corpus, size=200) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 5}, "`vocab_size`=5: too small"),
        ({"vocab_size": 5, "model_type": "wordpiece"}, "too small; the special .* need 5"),
        ({"input_sentence_size": -1}, "`input_sentence_size`=-1"),
        ({"input_file": ("none-*.txt",)}, "`input_file`: no file matches"),
    ],
)
def test_invalid_options_are_reported(corpus, tmp_path, changes, message):
    flags = {"input_file": (str(corpus),), "output_prefix": str(tmp_path / "v")} | changes
    with pytest.raises(InputError, match=message):
        train_vocabulary.run(VocabularyOptions(**flags))


def test_the_trainer_gets_each_word_as_often_as_counted():
    counts = collections.Counter({"the": 25_000, "cat": 10_000, "sat": 1})
    fed = collections.Counter()
    for text in wordpiece_vocabulary._repeated(counts.items()):
        assert len(text) < 50_000
        fed.update(text.split())
    assert fed == counts
