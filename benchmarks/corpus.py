"""Text to measure on, and a vocabulary trained on it, with the project's own commands."""

import glob
import os
from typing import NamedTuple

from albert_tf.tokenizers import Tokenizer
from benchmarks.comparison import Suite
from benchmarks.tasks import run_python

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Corpus(NamedTuple):
    """A corpus on disk.

    Attributes:
        source: where it comes from, as flags of `data_prep.extract_corpus`.
        text: sentences, as that writes them.
        spm_model_file: a vocabulary trained on it.
        vocab_size: of that.
    """

    name: str
    source: str
    text: str
    spm_model_file: str
    vocab_size: int


def small(folder: str) -> Corpus:
    """Extract this project's own documentation: a few hundred kilobytes, in seconds."""
    return _make(folder, "documentation of albert_tf", f"books:{_ROOT}/docs/*.md", 1000)


def chosen(folder: str, suite: Suite) -> Corpus:
    """Return the .txt files of --books, or without it documentation of installed packages."""
    options = suite.options
    if options.books:
        return _make(folder, "books", f"books:{options.books}", 8000, options.spm_model_file)
    if suite.quick:
        return small(folder)
    packages = f"--package_list={_ROOT}/configs/demo/packages.txt"
    run_python("-m", "examples.demo.package_docs", packages, f"--output_dir={folder}/docs")
    return _make(folder, "documentation of installed packages", f"table:{folder}/docs", 8000)


def records(
    corpus: Corpus,
    folder: str,
    length: int,
    predictions: int,
    masking: str = "static",
    num_shards: int = 1,
) -> list[str]:
    """Return TFRecords of a corpus."""
    path = os.path.join(folder, f"{masking}-{length}.tfrecord")
    run_python(
        "-m",
        "data_prep.create_pretraining_data",
        f"--input_file={corpus.text}",
        f"--output_file={path}",
        f"--spm_model_file={corpus.spm_model_file}",
        f"--max_seq_length={length}",
        f"--max_predictions_per_seq={predictions}",
        f"--masking={masking}",
        f"--num_shards={num_shards}",
        "--dupe_factor=1",
    )
    return sorted(glob.glob(f"{path}*"))


def _make(
    folder: str, name: str, source: str, vocab_size: int, spm_model_file: str | None = None
) -> Corpus:
    text, prefix = os.path.join(folder, "corpus.txt"), os.path.join(folder, "vocabulary")
    run_python("-m", "data_prep.extract_corpus", f"--source={source}", f"--output_file={text}")
    if spm_model_file:
        return Corpus(name, source, text, spm_model_file, Tokenizer.load(spm_model_file).vocab_size)
    run_python(
        "-m", "data_prep.train_vocabulary", f"--input_file={text}", f"--output_prefix={prefix}",
        f"--vocab_size={vocab_size}", "--input_sentence_size=200000",
    )  # fmt: skip
    return Corpus(name, source, text, f"{prefix}.model", vocab_size)
