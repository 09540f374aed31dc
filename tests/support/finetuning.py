"""A problem that a tiny model learns in seconds: texts of two kinds of words, in files."""

import dataclasses
import pathlib
import random
from collections.abc import Iterable

from albert_tf.tasks.classification.datasets import Example
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tokenizers import Tokenizer
from tests.support import tiny

WORDS = {"animal": ["cat", "dog", "bird", "horse"], "tool": ["saw", "drill", "file", "lathe"]}
LENGTH = 24

# Options of runs that only read what a folder holds.
NO_TRAINING = {
    "do_train": False, "albert_config_file": None, "vocab_file": None, "train_file": None,
}  # fmt: skip


def word_pieces(folder: pathlib.Path, words: Iterable[str]) -> Tokenizer:
    """Write a vocabulary of words and special symbols; return its tokenizer."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    return Tokenizer.load(f"{folder}/vocab.txt")


def write_model(folder: pathlib.Path, words: Iterable[str], **sizes) -> Tokenizer:
    """Write a vocabulary of words and a config; return the tokenizer."""
    tokenizer = word_pieces(folder, words)
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1, **sizes}
    (folder / "config.json").write_text(dataclasses.replace(tiny.CONFIG, **sizes).to_json())
    return tokenizer


def write_files(folder: pathlib.Path) -> Tokenizer:
    """Write a vocabulary, a config and tables of texts of very different lengths."""
    tokenizer = write_model(folder, sum(WORDS.values(), []), max_position_embeddings=LENGTH)
    draw = random.Random(0)
    for name, count in (("train", 66), ("eval", 37), ("predict", 21)):
        lines = ["text\tlabel"]
        for _ in range(count):
            label = draw.choice(list(WORDS))
            words = draw.choices(WORDS[label], k=draw.randint(1, 30))
            lines.append(f"{' '.join(words)}\t{label}")
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return tokenizer


def labeled(*labels) -> list[Example]:
    """Return rows of a table with these labels and the same text."""
    return [Example(f"rows.tsv:{row}", "x", None, label) for row, label in enumerate(labels, 2)]


def options_of(folder: pathlib.Path, output_dir: pathlib.Path, **changes) -> ClassificationOptions:
    """Return options that train, evaluate and predict on the files."""
    values = {
        "albert_config_file": str(folder / "config.json"),
        "vocab_file": str(folder / "vocab.txt"),
        "output_dir": str(output_dir),
        "train_file": str(folder / "train.tsv"),
        "eval_file": str(folder / "eval.tsv"),
        "predict_file": str(folder / "predict.tsv"),
        "max_seq_length": LENGTH,
        "train_batch_size": 8,
        "train_step": 30,
        "learning_rate": 0.01,
        "do_train": True,
        "do_eval": True,
    }
    return ClassificationOptions(**{**values, **changes})
