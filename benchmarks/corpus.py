"""Text to measure on, and a vocabulary trained on it, with the project's own commands."""

import glob
import json
import os
import pathlib
import shutil
import sys
from typing import NamedTuple

from albert_tf.tokenizers import Tokenizer
from benchmarks.comparison import Suite
from benchmarks.tasks import run_quietly

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Corpus(NamedTuple):
    """A corpus on disk.

    Attributes:
        name: what it is.
        books: folder of .txt files that it comes from.
        text: sentences, as `data_prep.extract_corpus` writes them.
        spm_model_file: a vocabulary trained on it.
        vocab_size: of that.
    """

    name: str
    books: str
    text: str
    spm_model_file: str
    vocab_size: int


def small(folder: str) -> Corpus:
    """Extract this project's own documentation: a few hundred kilobytes, in seconds."""
    books = os.path.join(folder, "books")
    os.makedirs(books)
    for path in (*glob.glob(f"{_ROOT}/docs/**/*.md", recursive=True), f"{_ROOT}/README.md"):
        shutil.copy(path, os.path.join(books, f"{os.path.basename(path)}.txt"))
    return _make(folder, "documentation of albert_tf", books, vocab_size=1000)


def chosen(folder: str, suite: Suite) -> Corpus:
    """Return the .txt files of --books, or without it documentation of installed packages."""
    options = suite.options
    if options.books:
        return _make(folder, "books", options.books, 8000, options.spm_model_file)
    if suite.quick:
        return small(folder)
    books, docs = pathlib.Path(folder, "books"), pathlib.Path(folder, "docs")
    packages = f"--package_list={_ROOT}/configs/demo/packages.txt"
    run_quietly(
        [sys.executable, "-m", "examples.demo.package_docs", packages, f"--output_dir={docs}"]
    )
    books.mkdir()
    for path in docs.iterdir():
        texts = [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]
        text = "\n".join(texts).replace("\n", "\n\n")  # of books, paragraphs
        (books / f"{path.stem}.txt").write_text(text, "utf-8")
    return _make(folder, "documentation of installed packages", str(books), vocab_size=8000)


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
    _run(
        "create_pretraining_data",
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
    folder: str, name: str, books: str, vocab_size: int, spm_model_file: str | None = None
) -> Corpus:
    text, prefix = os.path.join(folder, "corpus.txt"), os.path.join(folder, "vocabulary")
    _run("extract_corpus", "--format=books", f"--input_file={books}", f"--output_file={text}")
    if spm_model_file:
        return Corpus(name, books, text, spm_model_file, Tokenizer.load(spm_model_file).vocab_size)
    _run("train_vocabulary", f"--input_file={text}", f"--output_prefix={prefix}",
         f"--vocab_size={vocab_size}", "--input_sentence_size=200000")  # fmt: skip
    return Corpus(name, books, text, f"{prefix}.model", vocab_size)


def _run(module: str, *flags: str) -> None:
    run_quietly([sys.executable, "-m", f"data_prep.{module}", *flags])
