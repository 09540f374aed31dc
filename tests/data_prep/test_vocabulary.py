"""Vocabularies with the pieces of the original, from a uniform sample, or a clear refusal."""

from __future__ import annotations

import re

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer
from data_prep import train_vocabulary, vocabulary
from data_prep.train_vocabulary import Options


def test_pieces_are_laid_out_as_in_the_original(shared, model_file):
    pieces = Tokenizer.load(str(model_file)).pieces
    original = Tokenizer.load(str(shared("data/albert_en_vocab/30k-clean.model"))).pieces
    assert pieces[:13] == original[:13]
    assert len(pieces) == len(set(pieces)) == 1000
    listed = model_file.with_suffix(".vocab").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in listed] == pieces


def test_text_is_lower_cased_without_accents_first(tmp_path):
    (tmp_path / "in.txt").write_text("Ünïcode CAFÉ\n\n \nthe End\n", "utf-8")
    path = [str(tmp_path / "in.txt")]
    assert list(vocabulary.read_sentences(path, True)) == ["unicode cafe", "the end"]
    assert list(vocabulary.read_sentences(path, False)) == ["Unicode CAFE", "the End"]


def test_the_same_text_gives_the_same_files(corpus, tmp_path):
    files = []
    for name in "ab":
        options = Options(
            input_file=(str(corpus),), output_prefix=str(tmp_path / name), vocab_size=500
        )
        train_vocabulary.run(options)
        files.append((tmp_path / f"{name}.vocab").read_bytes())
    assert files[0] == files[1]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ending}" for name in "ab" for ending in ("model", "vocab")
    }


@pytest.mark.parametrize("vocab_size", [30_000, 50_000])
def test_the_size_that_the_error_names_works(corpus, tmp_path, vocab_size):
    sentences = list(vocabulary.read_sentences([str(corpus)], True))[:300]
    with pytest.raises(InputError, match=f"--vocab_size: {vocab_size} is more") as error:
        vocabulary.train(sentences, str(tmp_path / "v"), vocab_size)
    assert not list(tmp_path.iterdir())
    size = int(re.search(r"; (\d+) works", str(error.value))[1])
    assert size > 300
    vocabulary.train(sentences, str(tmp_path / "v"), size)
    assert Tokenizer.load(str(tmp_path / "v.model")).vocab_size == size


def test_a_size_below_the_alphabet_is_refused(tmp_path):
    sentences = ["the quick brown fox jumps over the lazy dog"] * 100
    with pytest.raises(InputError, match=r"--vocab_size: 20 is too few.* need (\d+)"):
        vocabulary.train(sentences, str(tmp_path / "v"), 20)
    assert not list(tmp_path.iterdir())


def test_the_sample_is_uniform_ordered_and_repeatable():
    numbers = [str(number) for number in range(1000)]
    counts = np.zeros(1000)
    for seed in range(400):
        chosen = [int(text) for text in vocabulary.sample(numbers, 100, seed)]
        assert len(set(chosen)) == 100
        assert chosen == sorted(chosen)
        counts[chosen] += 1
    for part in np.split(counts, 4):
        assert abs(part.mean() - 40) < 1.5
    assert vocabulary.sample(numbers, 10, 1) == vocabulary.sample(iter(numbers), 10, 1)
    assert vocabulary.sample(numbers, 0, 1) == vocabulary.sample(numbers, 5000, 1) == numbers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 5}, "--vocab_size: 5 is too few"),
        ({"input_sentence_size": -1}, "--input_sentence_size: -1"),
        ({"input_file": ("none-*.txt",)}, "--input_file: no file matches"),
    ],
)
def test_bad_flags_are_named(corpus, tmp_path, changes, message):
    flags = {"input_file": (str(corpus),), "output_prefix": str(tmp_path / "v")} | changes
    with pytest.raises(InputError, match=message):
        train_vocabulary.run(Options(**flags))
