"""BERT as it is published: Google's archives, and folders of several ages of transformers."""

import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForPreTraining
from tests.conftest import GOLDEN
from tests.support import layouts
from tests.support.models import letters
from tests.support.servers import serving

pytestmark = pytest.mark.integration

FOLDER = GOLDEN / "hf_bert_pretraining"


def assert_computes_the_same(path):
    model = albert_tf.from_preset(str(path), AlbertForPreTraining)
    inputs = dict(np.load(FOLDER / "inputs.npz"))
    shape = inputs["input_ids"].shape
    outputs = model(
        {
            "input_ids": inputs["input_ids"],
            "input_mask": inputs["attention_mask"],
            "segment_ids": inputs["token_type_ids"],
            "masked_lm_positions": np.broadcast_to(np.arange(shape[1]), shape),
        }
    )
    expected = np.load(FOLDER / "outputs.npz")
    for ours, theirs in {
        "masked_lm_logits": "prediction_logits",
        "sentence_order_logits": "seq_relationship_logits",
    }.items():
        np.testing.assert_allclose(outputs[ours], expected[theirs], rtol=0, atol=5e-6)


# What becomes of the names of transformers in a checkpoint of Google, step by step.
GOOGLE = {
    r"layer\.(\d)": r"layer_\1",
    r"LayerNorm\.weight$": "LayerNorm.gamma",
    r"LayerNorm\.bias$": "LayerNorm.beta",
    r"^(cls\.\w+)\.bias$": r"\1.output_bias",
    r"^(cls\.\w+)\.weight$": r"\1.output_weights",
    r"_embeddings\.weight$": "_embeddings",
    r"weight$": "kernel",
    r"\.": "/",
}


def google_name(name, value):
    for pattern, replacement in GOOGLE.items():
        name = re.sub(pattern, replacement, name)
    return name, value.T if name.endswith("/kernel") else value


@pytest.fixture
def archive(tmp_path):
    """Return an archive as Google's, with what pretraining leaves behind."""
    theirs = load_file(FOLDER / "model.safetensors")
    variables = dict(map(google_name, theirs, theirs.values()))
    slots = {f"{name}/adam_{m}": value for name, value in variables.items() for m in "mv"}
    folder = tmp_path / "uncased_L-3_H-32_A-4"
    folder.mkdir()
    layouts.save(folder / "bert_model.ckpt", {**variables, **slots})
    described = json.loads((FOLDER / "config.json").read_text())
    keys = "attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size vocab_size "
    keys += "initializer_range intermediate_size max_position_embeddings num_attention_heads "
    keys += "num_hidden_layers type_vocab_size"
    config = {key: described[key] for key in keys.split()}
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text(letters(150))
    return folder


@pytest.mark.parametrize("top", [None, "cased_L-3_H-32_A-4"])  # the small models have no folder
def test_googles_archives_by_address(archive, tmp_path, monkeypatch, top):
    if top:
        pieces = [*letters(140).split(), *"ABCDEFGHIJ"]
        (archive / "vocab.txt").write_text("\n".join(pieces) + "\n")
        archive = archive.rename(archive.with_name(top)).parent
    address = "storage.googleapis.com/bert_models/2020_02_20/L-3_H-32_A-4.zip"
    packed = pathlib.Path(shutil.make_archive(str(tmp_path / "packed"), "zip", archive, top))
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    with serving({address: packed.read_bytes()}) as server:
        monkeypatch.setenv("ALBERT_TF_MIRROR", server.address)
        assert_computes_the_same(f"https://{address}")
        assert albert_tf.Tokenizer.load(f"https://{address}").do_lower_case is not bool(top)


def test_googles_archives_compute_the_same(archive):
    assert_computes_the_same(archive)
    assert_computes_the_same(archive / "bert_model.ckpt")
    config = json.loads((archive / "bert_config.json").read_text())
    # As in the Chinese ones.
    config |= {"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token"}
    (archive / "bert_config.json").write_text(json.dumps(config))
    assert_computes_the_same(archive)
    assert albert_tf.Tokenizer.load(str(archive)).vocab_size == 150


def test_names_of_early_folders_are_read(tmp_path):
    folder = tmp_path / "early"
    shutil.copytree(FOLDER, folder)
    renamed = {}
    for name, value in load_file(FOLDER / "model.safetensors").items():
        name = re.sub(r"LayerNorm.weight$", "LayerNorm.gamma", name)
        renamed[re.sub(r"LayerNorm.bias$", "LayerNorm.beta", name)] = value
    position_ids = {"bert.embeddings.position_ids": np.arange(40)[None]}
    save_file({**renamed, **position_ids}, folder / "model.safetensors")
    assert_computes_the_same(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": None}))
    save_file(
        {k.removeprefix("bert."): v for k, v in renamed.items()}, folder / "model.safetensors"
    )
    assert_computes_the_same(folder)
    # As google/bert_uncased_L-2_H-128_A-2 was published, and the folders of 2018.
    (folder / "config.json").unlink()
    plain = {key: config[key] for key in config if key not in ("model_type", "architectures")}
    for name in ("bert_config.json", "config.json"):
        (folder / name).write_text(json.dumps(plain))
        assert_computes_the_same(folder)
    for other in ("roberta", "electra", "distilbert", "deberta"):
        named = {name.replace("bert.", f"{other}.", 1): renamed[name] for name in renamed}
        save_file(named, folder / "model.safetensors")
        with pytest.raises(InputError, match=rf"not an ALBERT or BERT: .* but {other}\.embeddings"):
            albert_tf.from_preset(str(folder))


def test_a_decoder_of_its_own_is_refused_with_the_head_only(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "untied")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    assert_computes_the_same(folder)
    decoder = {"cls.predictions.decoder.weight": np.zeros([150, 32], np.float32)}
    save_file({**load_file(FOLDER / "model.safetensors"), **decoder}, folder / "model.safetensors")
    assert albert_tf.from_preset(str(folder)).config.is_bert
    with pytest.raises(InputError, match=r"config.json: tie_word_embeddings=False: the head for"):
        albert_tf.from_preset(str(folder), AlbertForPreTraining)


def test_a_bert_has_no_projection_and_no_shared_layers():
    config = AlbertConfig.from_json_file(str(FOLDER / "config.json"))
    assert (config.embedding_size, config.num_hidden_groups) == (32, 3)
    assert config.is_bert
    assert AlbertConfig.preset("bert_base").is_bert
    assert not AlbertConfig.preset("base", embedding_size=768).is_bert


def test_layers_beyond_those_of_the_config_are_refused(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "bert")
    values = json.loads((folder / "config.json").read_text())
    layers = values["num_hidden_layers"]
    (folder / "config.json").write_text(json.dumps({**values, "num_hidden_layers": layers - 1}))
    message = f"`name`=.*has {layers} layers .* num_hidden_layers={layers - 1}$"
    with pytest.raises(InputError, match=message):
        albert_tf.from_preset(folder)


def test_with_a_single_segment_both_texts_of_a_pair_are_in_it():
    config = albert_tf.AlbertConfig.from_json_file(str(FOLDER / "config.json"))
    encoder = albert_tf.AlbertEncoder(dataclasses.replace(config, type_vocab_size=1))
    ids = np.arange(8, dtype=np.int32).reshape(1, 8)
    expected = encoder({"input_ids": ids})["pooled_output"]
    pair = {"input_ids": ids, "segment_ids": np.int32([[0, 0, 0, 0, 1, 1, 1, 1]])}
    for outputs in (encoder(pair), encoder.predict(pair, verbose=0)):
        np.testing.assert_allclose(outputs["pooled_output"], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fault", ["an unrelated config", "one of several files"])
def test_files_that_are_not_of_one_model_are_named(tmp_path, fault):
    folder = shutil.copytree(FOLDER, tmp_path / "bert")
    if fault == "an unrelated config":
        (folder / "config.json").write_text('{"name": "an app", "port": 80}')
        message = r"which .*bert/config\.json implies, but bert\.embeddings"
    else:
        tensors = load_file(folder / "model.safetensors")
        part = {name: value for name, value in tensors.items() if "encoder" not in name}
        save_file(part, folder / "model.safetensors")
        message = r"and is perhaps one of several files, which a model\.safetensors\.index\.json"
    with pytest.raises(InputError, match=message):
        albert_tf.from_preset(folder)
