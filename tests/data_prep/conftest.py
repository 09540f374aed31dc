"""A small real corpus and a vocabulary trained on it: the help texts of Python itself."""

import pathlib
import pydoc_data.topics

import pytest

from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import DEFAULT_NORMALIZATION, preprocess
from data_prep import example_maker, plan, text_units
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.sentences import split_sentences
from data_prep.vocabulary_types import train_unigram


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> pathlib.Path:
    """Forty documents, one sentence per line."""
    documents = []
    for _, text in sorted(pydoc_data.topics.topics.items())[:40]:
        paragraphs = [" ".join(block.split()) for block in text.split("\n\n")]
        documents.append([s for block in paragraphs for s in split_sentences(block)])
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def model_file(corpus, tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("vocabulary") / "small.model"
    lines = corpus.read_text("utf-8").split("\n")
    sentences = [preprocess(line, DEFAULT_NORMALIZATION) for line in lines]
    contents = train_unigram([line for line in sentences if line], 1000)
    for ending, content in zip((".model", ".vocab"), contents, strict=True):
        path.with_suffix(ending).write_bytes(content)
    return path


@pytest.fixture(scope="session")
def tokenizer(model_file) -> Tokenizer:
    return Tokenizer.load(str(model_file))


@pytest.fixture
def options(corpus, model_file, tmp_path) -> PretrainingDataOptions:
    return PretrainingDataOptions(
        input_file=(str(corpus),),
        output_file=(str(tmp_path / "out" / "train.tfrecord"),),
        spm_model_file=str(model_file),
        max_seq_length=64,
        max_predictions_per_seq=10,
        dupe_factor=2,
    )


@pytest.fixture
def small_pieces(monkeypatch):
    """Split a small corpus into as many pieces as a large one."""
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 10_000)
    monkeypatch.setattr(text_units, "_UNITS", 1_000_000)
    monkeypatch.setattr(plan, "_TOKENS_PER_BUCKET", 5_000)
    monkeypatch.setattr(example_maker, "_TOKENS_AT_ONCE", 1_000)
    monkeypatch.setattr(example_maker, "_CHARACTERS_AT_ONCE", 3_000)
    monkeypatch.setattr(example_maker, "_EXAMPLES_AT_ONCE", 17)
