"""Exports with preprocessing, used from outside as TF-Hub's encoders are."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.tokenizers import Tokenizer
from tests.conftest import ROOT
from tests.support import tiny
from tests.support.models import write_trained

pytestmark = pytest.mark.integration

try:
    tensorflow_text()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

USAGE = ROOT / "tests/support/published_usage.py"


@pytest.mark.slow
def test_it_is_used_as_published_encoders_are(export, tmp_path):
    words = [sys.executable, str(USAGE), export]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "variables trained" in done.stdout


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
        measure_latency=False,
    )
    with pytest.raises(InputError, match=r"`preprocess`: TensorFlow Text is not installed; pip"):
        export_saved_model(dataclasses.replace(options, preprocess=True))
    assert not os.path.exists(options.export_path)
    export_saved_model(options)
    assert "note: no preprocess/: TensorFlow Text is not installed" in capsys.readouterr().out
    assert sorted(os.listdir(options.export_path)) == ["README.md", "encoder", "export.json"]


@pytest.mark.manual
def test_in_an_environment_that_has_nothing_else(export, tmp_path):
    """TensorFlow and TensorFlow Text alone, from the package index."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    needed = f"tensorflow-text=={tensorflow_text().__version__}"
    subprocess.run([python, "-m", "pip", "install", "--quiet", needed], check=True)
    shutil.copytree(export, tmp_path / "export")
    words = [python, "-I", str(USAGE), str(tmp_path / "export")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "keras.layers.TFSMLayer: " in done.stdout
