"""SavedModels of TF-Hub and Model Garden, and this project's own, read as weights."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.interop.loading import load_weights, open_weights
from albert_tf.interop.saved_model import read_object_checkpoint, read_saved_model
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from tests.conftest import refusal
from tests.support import tiny
from tests.support.layouts import CONFIG_KEYS, HEAD, ModelGardenAlbert, Variables, shapes

pytestmark = pytest.mark.integration

# Heads that are not as many as their size, so that mixed-up axes show.
CONFIG = dataclasses.replace(tiny.WITHOUT_DROPOUT, hidden_size=24, num_attention_heads=4)
BLOCK = "bert/encoder/transformer/group_0/inner_group_0"
QUERY = "transformer/self_attention/query/kernel"


def _saved(module, tmp_path, name="module") -> str:
    path = str(tmp_path / name)
    tf.saved_model.save(module, path)
    return path


def _variable_paths(model) -> set[str]:
    return {weight.path for weight in model.weights}


@pytest.mark.parametrize("scope", ["", "albert_encoder/", "bert_pretrainer_v2/model_1/"])
def test_weights_of_model_garden_under_any_scope(scope, tmp_path):
    module = ModelGardenAlbert(CONFIG, head=False, scope=scope)
    weights = read_saved_model(_saved(module, tmp_path))
    assert set(weights.tensors) == _variable_paths(AlbertEncoder(CONFIG))
    assert (weights.format, weights.unknown, weights.config) == ("saved_model", {}, None)
    table = weights.tensors["bert/embeddings/word_embeddings"]
    assert table.name == f"{scope}word_embeddings/embeddings"


EARLY = (("self_attention/attention_output", "self_attention_output"),)


@pytest.mark.parametrize("rename", [(), EARLY])
def test_outputs_are_model_gardens(rename, tmp_path):
    module = ModelGardenAlbert(CONFIG, rename=rename)
    model = AlbertForPreTraining(CONFIG)
    matched = load_weights(model, _saved(module, tmp_path))
    fresh = {"cls/seq_relationship/output_weights", "cls/seq_relationship/output_bias"}
    assert (set(matched.missing), matched.unused) == (fresh, [])
    batch = tiny.batch(5)
    actual = model(batch)
    expected = module(batch["input_ids"], batch["input_mask"], batch["segment_ids"])
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-5)
    logits = module.mlm(expected["sequence_output"], batch["masked_lm_positions"])
    np.testing.assert_allclose(actual["masked_lm_logits"], logits, rtol=0, atol=1e-5)


def test_a_training_checkpoint_of_model_garden_without_its_optimizer(tmp_path):
    module = ModelGardenAlbert(CONFIG, head=False)
    table = (CONFIG.vocab_size, CONFIG.embedding_size)
    checkpoint = tf.train.Checkpoint(
        encoder=module,
        model=module,
        optimizer=Variables({"Adam/m/word_embeddings/embeddings": table}, seed=1),
    )
    prefix = checkpoint.save(str(tmp_path / "bert_model.ckpt"))
    for path in (prefix, str(tmp_path)):
        weights = open_weights(path)
        assert (weights.path, weights.format) == (prefix, "saved_model")
        assert set(weights.tensors) == _variable_paths(AlbertEncoder(CONFIG))
        assert weights.unknown == {}
        assert {key.split("/")[0] for key in weights.skipped} == {"optimizer", "save_counter"}
        np.testing.assert_array_equal(
            weights.read("bert/embeddings/word_embeddings"),
            module.value("word_embeddings/embeddings"),
        )
    assert weights.config is None
    (tmp_path / "albert_config.json").write_text(CONFIG.to_json())
    assert read_object_checkpoint(prefix).config == CONFIG


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (QUERY, (24, 2, 5)),  # not square when joined
        (QUERY, (24, 2, 3, 4)),
        ("transformer/self_attention/query/bias", (2, 3, 4)),
        ("transformer/intermediate/kernel", (24, 4, 8)),
        ("pooler_transform/bias", (4, 6)),
        ("classification/predictions/logits/kernel", (24, 2)),  # a name that fits no variable
    ],
)
def test_what_fits_no_variable_by_name_and_shape_is_unknown(name, shape, tmp_path):
    named = {**shapes(CONFIG, head=True), name: shape}
    weights = read_saved_model(_saved(Variables(named), tmp_path))
    assert weights.unknown == {name: shape}
    assert len(weights.tensors) == len(named) - 1
    assert weights.tensors["cls/predictions/output_bias"].name == f"{HEAD}/output_bias/bias"


def _arguments(**changes) -> dict:
    return {
        **{key: getattr(CONFIG, name) for key, name in CONFIG_KEYS.items()},
        "activation": "Text>gelu",
        "initializer": {"class_name": "TruncatedNormal", "config": {"stddev": 0.02}},
        **changes,
    }


def test_the_config_is_what_keras_notes_of_the_encoder(tmp_path):
    path = _saved(ModelGardenAlbert(CONFIG, head=False), tmp_path)
    metadata = tmp_path / "module" / "keras_metadata.pb"

    def config_with(*encoders):
        notes = [json.dumps({"class_name": "Encoder", "config": values}) for values in encoders]
        metadata.write_bytes(b"\n\x12\xff".join(note.encode() for note in notes) + b"\x1a\x80")
        return read_saved_model(path).config

    assert config_with(_arguments()) == CONFIG
    assert config_with({"vocab_size": 7}, _arguments()) == CONFIG
    relu = dataclasses.replace(CONFIG, hidden_act="relu", num_hidden_layers=5)
    assert config_with(_arguments(activation="relu", num_layers=5)) == relu
    assert config_with(_arguments(activation="a_new_one")) is None
    assert config_with(_arguments(num_attention_heads=2)) is None, "the weights have 4"
    assert config_with(_arguments(vocab_size=61)) is None
    assert config_with() is None

    # Before there was a file for it, the same stood in saved_model.pb.
    metadata.unlink()
    with open(f"{path}/saved_model.pb", "ab") as file:
        file.write(json.dumps(_arguments()).encode())
    assert read_saved_model(path).config == CONFIG
    (tmp_path / "module" / "assets" / "albert_config.json").write_text(relu.to_json())
    assert read_saved_model(path).config == relu, "the file says it, the notes only hint"


def test_a_module_in_the_format_of_tensorflow_1(tmp_path):
    values = {
        f"module/{weight.path}": np.random.default_rng(1).normal(size=weight.shape)
        for weight in AlbertForPreTraining(CONFIG).weights
    }
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(name, initializer=value.astype("float32"), use_resource=False)
            for name, value in values.items()
        ]
        session.run(v1.global_variables_initializer())
        output = {"sum": tf.add_n([tf.reduce_sum(variable) for variable in variables])}
        v1.saved_model.simple_save(session, str(tmp_path / "module"), output, output)
    weights = open_weights(str(tmp_path / "module"))
    assert (weights.path, weights.format) == (str(tmp_path / "module"), "saved_model")
    assert {f"module/{name}" for name in weights.tensors} == set(values)
    for name in weights.tensors:
        np.testing.assert_array_equal(weights.read(name), values[f"module/{name}"].astype("f4"))


def test_other_saved_models_are_named_with_what_they_hold(tmp_path):
    def message(path) -> str:
        found = refusal(read_saved_model, path)
        assert path in found
        return found

    named = {
        name.replace("transformer/", "transformer/layer_0/"): shape
        for name, shape in shapes(CONFIG, head=False).items()
    }
    bert = message(_saved(Variables(named), tmp_path, "bert"))
    assert f"nor {QUERY}" in bert
    assert "but embedding_projection/bias, embedding_projection/kernel, " in bert
    other = message(_saved(Variables({"dense/kernel": (2, 2)}), tmp_path, "other"))
    assert "nor word_embeddings/embeddings" in other
    assert "dense/kernel" in other

    pair = tf.Module()
    pair.left, pair.right = (ModelGardenAlbert(CONFIG, False, scope) for scope in ("a/", "b/"))
    assert "several encoders, with a/" in message(_saved(pair, tmp_path, "pair"))

    assert "but nothing" in message(_saved(tf.Module(), tmp_path, "empty"))
    (tmp_path / "bare").mkdir()
    assert "a SavedModel without weights: " in message(str(tmp_path / "bare"))
