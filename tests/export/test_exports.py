"""Exported encoders: their outputs, how they are trained further, and what is refused."""

import dataclasses
import json
import os
import pathlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.errors import InputError
from albert_tf.export import build
from albert_tf.export import check as export_check
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import CheckOptions
from albert_tf.export.exported_encoder import ExportedEncoder
from albert_tf.finetuning.context import find_config, find_tokenizer, with_hub_module
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.loading import load_weights, open_weights
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tokenizers import Tokenizer
from tests.conftest import refusal
from tests.export.conftest import options_of
from tests.interop.test_convert import assert_same, values_at
from tests.support import tiny
from tests.support.models import CONFIGS, TRAINED, features, random_model, write_trained
from tests.support.served import require_tensorflow_text

pytestmark = pytest.mark.integration


def inputs_of(batch) -> dict[str, tf.Tensor]:
    named = {"input_ids": "input_word_ids", "input_mask": "input_mask"}
    named |= {"segment_ids": "input_type_ids", "masked_lm_positions": "masked_lm_positions"}
    return {there: tf.constant(batch[here]) for here, there in named.items()}


@pytest.fixture(scope="module")
def loaded(export):
    """Return the encoder, for tests that do not train it."""
    return tf.saved_model.load(f"{export}/encoder")


def close(actual, expected, name: str) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("structure", ["shared attention", "three groups of two"])
def test_outputs_are_the_models(structure, tmp_path):
    config = CONFIGS[structure]
    model = random_model("encoder", config)
    files = [tmp_path / "albert_config.json", tmp_path / "vocab.txt"]
    for file in files:
        file.write_text(config.to_json())
    module = ExportedEncoder(model, str(files[0]), [str(files[1])], do_lower_case=True)
    batch = features(config)
    expected = model(batch)
    inputs = inputs_of(batch)
    inputs.pop("masked_lm_positions")
    found = module(inputs)
    for name in ("pooled_output", "sequence_output"):
        close(found[name], expected[name], name)
    close(found["default"], expected["pooled_output"], "default")
    per_layer = config.inner_group_num
    assert len(found["encoder_outputs"]) == config.num_hidden_layers
    for number, layer in enumerate(found["encoder_outputs"]):
        close(layer, expected["encoder_outputs"][(number + 1) * per_layer - 1], f"layer {number}")


def test_every_entry_of_an_export(export, loaded, trained):
    batch, model = tiny.batch(3), AlbertForPreTraining(TRAINED)
    load_weights(model, trained)
    expected = model(batch)
    with_masks = inputs_of(batch)
    inputs = {n: v for n, v in with_masks.items() if n != "masked_lm_positions"}
    tokens = {name: tf.constant(batch[name]) for name in ("input_ids", "input_mask", "segment_ids")}
    assert set(loaded.signatures) == {"serving_default", "tokens", "mlm", "sop"}
    for found in (
        loaded(inputs),
        loaded.signatures["serving_default"](**inputs),
        loaded.signatures["tokens"](**tokens),
        loaded.mlm(with_masks),
        loaded.sop(inputs),
    ):
        for name in ("pooled_output", "sequence_output"):
            close(found[name], expected[name], name)
    for found in (loaded.mlm(with_masks), loaded.signatures["mlm"](**with_masks)):
        close(found["mlm_logits"], expected["masked_lm_logits"], "mlm")
    for found in (loaded.sop(inputs), loaded.signatures["sop"](**inputs)):
        close(found["sop_logits"], expected["sentence_order_logits"], "sop")
    # Any batch and length.
    short = {name: value[:1, :5] for name, value in inputs.items()}
    assert loaded(short)["sequence_output"].shape == (1, 5, tiny.CONFIG.hidden_size)
    assets = {path.name for path in pathlib.Path(export, "encoder", "assets").iterdir()}
    assert assets == {"albert_config.json", "tokenizer_config.json", "vocab.txt"}


def test_keras_3_takes_it_as_a_layer(export, loaded):
    layer = keras.layers.TFSMLayer(f"{export}/encoder", call_endpoint="__call__")
    inputs = inputs_of(tiny.batch(2))
    inputs.pop("masked_lm_positions")
    np.testing.assert_array_equal(layer(inputs)["pooled_output"], loaded(inputs)["pooled_output"])


@pytest.mark.slow
def test_it_goes_on_training(export):
    loaded = tf.saved_model.load(f"{export}/encoder")
    paths = {weight.path for weight in AlbertEncoder(TRAINED).weights}
    assert len(loaded.variables) == len(loaded.trainable_variables) == len(paths)
    assert list(loaded.regularization_losses) == []
    head = {"mlm": "cls/predictions/", "sop": "cls/seq_relationship/"}
    for name, scope in head.items():
        expected = [w for w in AlbertForPreTraining(TRAINED).weights if scope in w.path]
        member = getattr(loaded, name)
        assert len(member.trainable_variables) == len(paths) + len(expected)

    inputs = inputs_of(tiny.batch(8))
    positions = inputs.pop("masked_lm_positions")
    dropped = [loaded(inputs, training=True)["pooled_output"] for _ in range(2)]
    assert not np.allclose(dropped[0], dropped[1]), "dropout differs between calls"
    whole = loaded(inputs)["pooled_output"].numpy()
    np.testing.assert_array_equal(whole, loaded(inputs, training=False)["pooled_output"])

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loaded(inputs, training=False)["pooled_output"] ** 2)
    variables = loaded.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        if "key/bias" not in variable.name:  # whose gradient is zero
            assert np.any(tf.convert_to_tensor(gradient)), variable.name
    loaded.variables[0].assign(tf.zeros_like(loaded.variables[0]))
    assert not np.allclose(loaded(inputs)["pooled_output"], whole)
    mlm = tf.saved_model.load(f"{export}/encoder").mlm  # all that is kept of it
    with tf.GradientTape() as tape:
        logits = mlm({**inputs, "masked_lm_positions": positions})["mlm_logits"]
        loss = tf.reduce_sum(logits**2)
    variables = mlm.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        if "pooler" not in variable.name:
            assert np.any(tf.convert_to_tensor(gradient)), variable.name


def test_it_is_where_fine_tuning_starts(export, trained):
    for handle in (export, f"{export}/encoder"):
        options = with_hub_module(
            ClassificationOptions(
                output_dir=f"{export}-none",
                albert_hub_module_handle=handle,
                spm_model_file="from_tf_hub",
            )
        )
        tokenizer = find_tokenizer(options)
        assert (tokenizer.vocab_size, tokenizer.do_lower_case) == (tiny.VOCAB, True)
        assert find_config(options) == TRAINED
        weights, expected = open_weights(options.init_checkpoint), open_weights(trained)
        assert (set(weights.tensors), weights.unknown) == (set(expected.tensors), {})
        assert {key.split("/")[0] for key in weights.skipped} == {"do_lower_case", "dropout_state"}
        assert_same(values_at(options.init_checkpoint), values_at(trained))


def test_the_same_command_again_finds_its_work_done(export, options, trained, capsys):
    stamp = os.stat(f"{export}/encoder/saved_model.pb").st_mtime_ns
    export_saved_model(options)
    assert "already exported from the same weights" in capsys.readouterr().out
    assert os.stat(f"{export}/encoder/saved_model.pb").st_mtime_ns == stamp
    for changes in ({"do_lower_case": False}, {"max_seq_length": 8}):
        with pytest.raises(InputError, match="is a different export"):
            export_saved_model(dataclasses.replace(options, **changes))
    assert json.loads(pathlib.Path(export, "export.json").read_text())["step"] == 7


def test_what_cannot_be_exported_is_named_and_leaves_nothing(trained, tmp_path, monkeypatch):
    options = options_of(trained, tmp_path / "export", preprocess=False)

    def message(**changes) -> str:
        return refusal(export_saved_model, dataclasses.replace(options, **changes))

    assert "already exists; remove it" in message(export_path=trained)
    assert "nowhere.model: no such vocabulary file" in message(spm_model_file="nowhere.model")
    assert "`init_checkpoint`=nowhere: no such file or folder" in message(init_checkpoint="nowhere")
    assert "`max_seq_length`=17: must be 3 to 16" in message(max_seq_length=17)
    other = tmp_path / "other"
    write_trained(other)
    (other / "vocab.txt").unlink()
    assert "there is none next to the weights of" in message(init_checkpoint=str(other))
    (other / "albert_config.json").unlink()
    assert "there is no albert_config.json or bert_config.json next to the weights" in message(
        init_checkpoint=str(other)
    )

    def full(*arguments, **settings):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left")

    monkeypatch.setattr(build.tf.saved_model, "save", full)
    with pytest.raises(OSError, match="no space left"):
        export_saved_model(options)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_heads_that_the_weights_lack_are_left_out(tmp_path):
    folder = write_trained(tmp_path / "encoder_only", head="encoder")
    options = options_of(folder, tmp_path / "export", preprocess=False)
    export_saved_model(options)
    loaded = tf.saved_model.load(str(tmp_path / "export" / "encoder"))
    assert set(loaded.signatures) == {"serving_default", "tokens"}
    assert not hasattr(loaded, "mlm")
    recorded = find_adjacent_files(options.export_path).normalization
    assert recorded.do_lower_case is False, "as in training"


@pytest.mark.slow
def test_the_check_of_an_export(export, trained, tmp_path, monkeypatch, capsys):
    options = CheckOptions(words=("CHECK", export), seq_lengths=("8",))
    kept = []
    fresh = export_check._in_fresh_process
    monkeypatch.setattr(
        export_check, "_in_fresh_process", lambda *a: (kept or kept.append(fresh(*a)) or kept)[0]
    )
    export_check.check(options)
    printed = capsys.readouterr().out
    assert "signatures: serving_default, tokens, mlm, sop" in printed
    assert "mlm/mlm_logits: differs from the model by at most" in printed
    assert "batch 32, length   8: " in printed
    if os.path.exists(f"{export}/preprocess"):
        assert "same ids as the tokenizer for 12 texts" in printed
        found = kept[0]
        for name, place in (("preprocess/ids", 3), ("preprocess/input_word_ids", (0, 4))):
            found[name][place] += 1
            with pytest.raises(InputError, match="other ids for .* than the tokenizer"):
                export_check.check(options)
            found[name][place] -= 1

    # With what that process found, and other weights to compare with.
    export_check.check(dataclasses.replace(options, init_checkpoint=trained))
    other = write_trained(tmp_path / "other")
    values = {n: open_weights(other).read(n) for n in open_weights(other).tensors}
    values["cls/predictions/output_bias"] += 0.1
    TensorFlowFolder(str(other)).write(7, values)
    with pytest.raises(InputError, match=r"mlm/mlm_logits differs from the model by 0\.1"):
        export_check.check(dataclasses.replace(options, init_checkpoint=other))
    del kept[0]["tokens/pooled_output"]
    with pytest.raises(InputError, match="the signature tokens has no output pooled_output"):
        export_check.check(options)

    def message(*words, **changes) -> str:
        return refusal(export_check.check, dataclasses.replace(options, words=words, **changes))

    assert "usage: " in message("check")
    assert "not an export; it contains no encoder/" in message("check", trained)
    assert "`seq_lengths`=a: must be whole numbers" in message("check", export, seq_lengths=("a",))


def test_ids_and_lengths(export, options):
    require_tensorflow_text()
    tokenizer = Tokenizer.load(f"{options.init_checkpoint}/vocab.txt", True)
    preprocess = tf.saved_model.load(f"{export}/preprocess")
    texts = ["The cat, sat! On the mat.", "", "É a"]
    packed = preprocess(tf.constant(texts))
    served = preprocess.signatures["serving_default"](inputs=tf.constant(texts))
    for name, values in packed.items():
        np.testing.assert_array_equal(served[name], values)
    expected = tokenizer(texts, max_length=9, padding="max_length")
    np.testing.assert_array_equal(packed["input_word_ids"], expected["input_ids"])
    np.testing.assert_array_equal(packed["input_mask"], expected["input_mask"])
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
    trained = write_trained(tmp_path / "trained", head="encoder")
    options = options_of(trained, tmp_path / "export")
    with pytest.raises(InputError, match=r"`preprocess`: TensorFlow Text is not installed; pip"):
        export_saved_model(dataclasses.replace(options, preprocess=True))
    assert not os.path.exists(options.export_path)
    export_saved_model(options)
    assert "note: no preprocess/: TensorFlow Text is not installed" in capsys.readouterr().out
    assert sorted(os.listdir(options.export_path)) == ["README.md", "encoder", "export.json"]
