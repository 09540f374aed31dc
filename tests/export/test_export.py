"""Exports with preprocessing, used from outside as TF-Hub's encoders are."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export import check as export_check
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import CheckOptions, ExportOptions
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.tokenizers import Tokenizer
from tests import tiny
from tests.interop.models import write_trained

pytestmark = pytest.mark.integration

try:
    tensorflow_text()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

USAGE = pathlib.Path(__file__).with_name("published_usage.py")


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> ExportOptions:
    folder = tmp_path_factory.mktemp("exports")
    return ExportOptions(
        init_checkpoint=write_trained(folder / "trained"),
        export_path=str(folder / "export"),
        do_lower_case=True,
        max_seq_length=9,
        measure_latency=False,
    )


@pytest.fixture(scope="module")
def export(options) -> str:
    export_saved_model(options)
    return options.export_path


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
    assert [path.name for path in pathlib.Path(export, "preprocess", "assets").iterdir()] == [
        "vocab.txt"
    ]
    numbers = preprocess.tokenize.get_special_tokens_dict()
    assert {name: int(value) for name, value in numbers.items()} == {
        "vocab_size": tiny.VOCAB,
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
    }


def test_the_check_compares_ids(export, capsys, monkeypatch):
    options = CheckOptions(words=("check", export), seq_lengths=())
    kept = []
    fresh = export_check._in_fresh_process
    monkeypatch.setattr(
        export_check, "_in_fresh_process", lambda *a: (kept or kept.append(fresh(*a)) or kept)[0]
    )
    export_check.check(options)
    assert "same ids as the tokenizer for 12 texts" in capsys.readouterr().out
    found, _ = kept[0]
    for name, place in (("preprocess/ids", 3), ("preprocess/input_word_ids", (0, 4))):
        right = found[name].copy()
        found[name][place] += 1
        with pytest.raises(InputError, match="other ids for .* than the tokenizer"):
            export_check.check(options)
        found[name] = right


def test_keras_3_takes_it_as_a_layer(export):
    import keras

    encoder = tf.saved_model.load(f"{export}/encoder")
    preprocess = tf.saved_model.load(f"{export}/preprocess")
    layer = keras.layers.TFSMLayer(f"{export}/encoder", call_endpoint="__call__")
    inputs = preprocess(tf.constant(["the cat", "a dog"]))
    np.testing.assert_array_equal(layer(inputs)["pooled_output"], encoder(inputs)["pooled_output"])


def test_without_tensorflow_text(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    options = dataclasses.replace(options, export_path=str(tmp_path / "export"))
    with pytest.raises(InputError, match=r"`preprocess`: TensorFlow Text is not installed; pip"):
        export_saved_model(dataclasses.replace(options, preprocess=True))
    assert not os.path.exists(options.export_path)
    export_saved_model(options)
    assert "note: no preprocess/: TensorFlow Text is not installed" in capsys.readouterr().out
    assert sorted(os.listdir(options.export_path)) == ["README.md", "encoder", "export.json"]


@pytest.mark.manual
def test_in_an_environment_that_has_nothing_else(export, tmp_path):
    """TensorFlow, TensorFlow Text and TensorFlow Hub alone, from the package index."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    # TensorFlow Hub reads pkg_resources, which later releases of setuptools no longer have.
    needed = [
        f"tensorflow-text=={tensorflow_text().__version__}",
        "tensorflow-hub",
        "setuptools<81",
    ]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True)
    shutil.copytree(export, tmp_path / "export")
    words = [python, "-I", str(USAGE), str(tmp_path / "export")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "hub.KerasLayer: " in done.stdout
