"""What tests of served models share: a small vocabulary, tricky texts, models that differ."""

import dataclasses
import pathlib
import random

import pytest
import tensorflow as tf

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.tokenizers import Tokenizer
from tests.support.models import TRAINED, random_model, values_of
from tests.support.references import trained_sentencepiece

WORDS = (
    "the cat sat on a mat while 1,000 dogs ate Café crème _ in São Paulo; who knew? 1999, said I"
)
# Characters that are treated in different ways, and runs of white space of several kinds.
ODD = [
    *("  ", "\n\t", "\xa0", "\u3000", "É", "e\u0301", "İ", "ﬁ", "½", "漢字", "Σας"),
    *("__", "＿", "🤗", "x_y", "_y"),
]

LONGEST = 40
LABELS = ("bad", "fair, or so", "good")


def require_tensorflow_text() -> None:
    """Skip the test, or the module, that needs TensorFlow Text where it is not installed."""
    try:
        tensorflow_text()
    except InputError as error:
        pytest.skip(str(error), allow_module_level=True)


def texts(count: int, most: int, seed: int = 0) -> list[str]:
    """Return texts of 0 to `most` words, with odd characters and spaces in them."""
    draw = random.Random(seed)
    words = WORDS.split() * 3 + ODD
    return [
        "".join(
            draw.choice(words) + draw.choice(["", " ", " ", " ", "\n"])
            for _ in range(draw.randint(0, most))
        )
        for _ in range(count)
    ]


def assert_nothing_is_answered(signature, answer: dict, **shapes: list[int]) -> None:
    """Ask for a batch of 0, which gets the outputs of `answer` without a row."""
    nothing = signature(**{name: tf.zeros(shape, tf.string) for name, shape in shapes.items()})
    assert {name: (0, value.dtype) for name, value in answer.items()} == {
        name: (len(value), value.dtype) for name, value in nothing.items()
    }
    for name, value in nothing.items():
        assert len(value.shape) == len(answer[name].shape)


def write_vocabulary(folder) -> Tokenizer:
    """Return a SentencePiece vocabulary of the words above."""
    path = folder / "small.model"
    path.write_bytes(trained_sentencepiece(texts(400, 20, seed=1), 90))
    return Tokenizer.load(str(path))


def config_for(tokenizer: Tokenizer) -> AlbertConfig:
    return dataclasses.replace(
        TRAINED, vocab_size=tokenizer.vocab_size, max_position_embeddings=LONGEST
    )


def trained_folder(folder: pathlib.Path, head: str, labels: int = 3, **files: str) -> pathlib.Path:
    """Return what a fine-tuning program leaves, with random weights."""
    folder.mkdir()
    model = random_model(head, config_for(write_vocabulary(folder)), labels=labels)
    TensorFlowFolder(str(folder)).write(7, values_of(model))
    (folder / "albert_config.json").write_text(model.config.to_json())
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder
