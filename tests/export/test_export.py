"""Exports with preprocessing, used from outside as TF-Hub's encoders are."""

import dataclasses
import os
import pathlib
import sys

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.tokenizers import Tokenizer
from tests.support import tiny
from tests.support.models import write_trained

pytestmark = pytest.mark.integration

try:
    tensorflow_text()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_ids_and_lengths(export, options):
    tokenizer = Tokenizer.load(f"{options.init_checkpoint}/vocab.txt", True)
    preprocess = tf.saved_model.load(f"{export}/preprocess")
    texts = ["The cat, sat! On the mat.", "", "É a"]
    for packed in (
        preprocess(tf.constant(texts)),
        preprocess.signatures["serving_default"](inputs=tf.constant(texts)),
    ):
        for row, mask, text in zip(
            packed["input_word_ids"].numpy(), packed["input_mask"].numpy(), texts, strict=True
        ):
            ids = [tokenizer.cls_id, *tokenizer.encode(text)[:7], tokenizer.sep_id]
            assert row[: len(ids)].tolist() == ids
            assert len(row) == 9
            assert mask.sum() == len(ids)
    assert {path.name for path in pathlib.Path(export, "preprocess", "assets").iterdir()} == {
        "vocab.txt", "tokenizer_config.json",
    }  # fmt: skip
    nothing = preprocess(tf.constant([], tf.string))
    assert {name: value.shape for name, value in nothing.items()} == dict.fromkeys(packed, (0, 9))
    encoder = tf.saved_model.load(f"{export}/encoder")
    assert len(encoder(nothing)["sequence_output"]) == 0
    numbers = preprocess.tokenize.get_special_tokens_dict()
    assert {name: int(value) for name, value in numbers.items()} == {
        "vocab_size": tiny.VOCAB,
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
    }


def test_without_tensorflow_text(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    options = ExportOptions(
        init_checkpoint=write_trained(tmp_path / "trained", head="encoder"),
        export_path=str(tmp_path / "export"),
    )
    with pytest.raises(InputError, match=r"`preprocess`: TensorFlow Text is not installed; pip"):
        export_saved_model(dataclasses.replace(options, preprocess=True))
    assert not os.path.exists(options.export_path)
    export_saved_model(options)
    assert "note: no preprocess/: TensorFlow Text is not installed" in capsys.readouterr().out
    assert sorted(os.listdir(options.export_path)) == ["README.md", "encoder", "export.json"]
