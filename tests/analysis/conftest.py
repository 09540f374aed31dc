"""A tiny model with a vocabulary of letters; needs no TensorFlow."""

import dataclasses

import keras
import pytest

import albert_tf
from tests.support import tiny
from tests.support.models import letters, random_model

CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> albert_tf.Tokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(tiny.VOCAB))
    return albert_tf.Tokenizer.load(str(path))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return random_model("pretraining", CONFIG)
