"""convert_checkpoint.py: any format to any other, bit by bit, and what it refuses."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.loading import open_weights
from tests.conftest import GOLDEN
from tests.support.models import CONFIGS, features, keras_file, random_model, values_of

pytestmark = pytest.mark.integration


def run(source, target, to="huggingface", **flags):
    convert(ConvertOptions(input=str(source), output=str(target), to_format=to, **flags))
    return target


def values_at(path):
    weights = open_weights(str(path))
    return {name: weights.read(name) for name in weights.tensors}


def assert_same(one, other):
    assert set(one) == set(other)
    for name, value in one.items():
        assert value.dtype == other[name].dtype, name
        assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("name", ["tiny", "groups2", "nomap"])
def test_originals_come_back_bit_by_bit(tmp_path, name):
    source = GOLDEN / f"google_tf1_{name}"
    there = run(source, tmp_path / "hf", from_format="google")
    ours = run(there, tmp_path / "ours", "albert_tf", from_format="huggingface")
    file = run(ours, tmp_path / "keras" / "model.weights.h5", "albert_tf")
    back = run(file, tmp_path / "back", "google", from_format="albert_tf")
    reader = tf.train.load_checkpoint(str(back))
    variables = dict(np.load(source / "variables.npz"))
    assert set(reader.get_variable_to_shape_map()) == {*variables, "global_step"}
    assert_same({name: reader.get_tensor(name) for name in variables}, variables)
    for folder in (ours, back):
        config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
        original = AlbertConfig.from_json_file(str(source / "albert_config.json"))
        assert config == original


def test_the_head_for_no_answer_comes_back(tmp_path):
    model = random_model("conditional_span", CONFIGS["three groups of two"])
    there = run(keras_file(tmp_path / "start", model), tmp_path / "there", "google")
    names = set(tf.train.load_checkpoint(str(there)).get_variable_to_shape_map())
    assert names == {"global_step", *(weight.path for weight in model.weights)}
    assert {
        "start_logits/dense/kernel",
        "end_logits/dense_0/kernel",
        "end_logits/LayerNorm/gamma",
        "end_logits/dense_1/bias",
        "answer_class/dense_0/bias",
        "answer_class/dense_1/kernel",
    } < names
    assert "answer_class/dense_1/bias" not in names
    assert_same(values_at(run(there, tmp_path / "back", "albert_tf")), values_of(model))
    with pytest.raises(InputError, match=r"`to_format`=huggingface: has no model with the head"):
        run(there, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
    run(there, tmp_path / "encoder", head="encoder")


THEIR_OUTPUTS = {
    "pretraining": {"masked_lm_logits": "prediction_logits", "sentence_order_logits": "sop_logits"},
    "span": {"start_logits": "start_logits", "end_logits": "end_logits"},
    "classifier": {"logits": "logits"},
    "choice": {"logits": "logits"},
    "tagger": {"logits": "logits"},
    "encoder": {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"},
}


def of_transformers(folder, architecture, inputs):
    """Return what a model of transformers computes, in float64.

    Args:
        folder: of the weights.
        architecture: the name of the class.
        inputs: features under our names.
    """
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    model, info = getattr(transformers, architecture).from_pretrained(
        str(folder), output_loading_info=True
    )
    assert not info["missing_keys"], info
    assert not info["mismatched_keys"], info
    names = {"input_ids": "input_ids", "attention_mask": "input_mask"}
    names["token_type_ids"] = "segment_ids"
    features = {name: torch.tensor(inputs[ours].astype("int64")) for name, ours in names.items()}
    with torch.no_grad():
        outputs = model.eval().double()(**features)
    return {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.slow
def test_transformers_computes_the_same(tmp_path):
    pairs = [("pretraining", structure) for structure in CONFIGS]
    # Heads are converted alike, whatever structure the encoder has.
    others = [head for head in THEIR_OUTPUTS if head != "pretraining"]
    pairs += itertools.product(others, ("shared", "shared attention"))
    for number, (head, structure) in enumerate(pairs):
        config = CONFIGS[structure]
        model, inputs = random_model(head, config, seed=number), features(config, seed=number)
        if head == "choice":
            names_of = ("input_ids", "input_mask", "segment_ids")
            inputs = {name: inputs[name].reshape(1, 3, -1) for name in names_of}
        flags = {"head": "choice"} if head == "choice" else {}
        file = keras_file(tmp_path / f"{head}{number}", model)
        folder = run(file, tmp_path / f"hf {head}{number}", **flags)
        fields = json.loads((folder / "config.json").read_text())
        outputs = model(inputs)
        theirs = of_transformers(folder, fields["architectures"][0], inputs)
        if config.is_bert and head == "pretraining":
            theirs["sop_logits"] = theirs.pop("seq_relationship_logits")
        for ours, name in THEIR_OUTPUTS[head].items():
            np.testing.assert_allclose(outputs[ours], theirs[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["pretraining", "seqcls", "tokcls", "qa", "mc"])
@pytest.mark.parametrize("family", ["tiny", "bert"])
def test_hugging_faces_own_come_back_bit_by_bit(tmp_path, family, name):
    source = GOLDEN / f"hf_{family}_{name}"
    google = run(source, tmp_path / "google", "google")
    back = run(google, tmp_path / "back")
    assert_same(values_at(source), values_at(back))
    assert not (google / "labels.json").exists()  # LABEL_0, LABEL_1, ... say nothing
    direct = run(source, tmp_path / "direct")
    theirs, *ours = [described(folder) for folder in (source, back, direct)]
    assert ours == [theirs, theirs]


def described(folder):
    """Return the names of the tensors in a folder, and what its config says about them."""
    config = json.loads((folder / "config.json").read_text())
    keys = ("architectures", "model_type", "layer_norm_eps", "hidden_act")
    names = load_file(folder / "model.safetensors").keys()
    return {key: config[key] for key in keys}, set(names) - {"predictions.decoder.bias"}


def without(values, *names):
    return {name: value for name, value in values.items() if name not in names}


def google_folder(folder, values, config):
    from albert_tf.interop.google import write_google_checkpoint

    folder.mkdir()
    write_google_checkpoint(str(folder / "model.ckpt-7"), values, step=7)
    (folder / "albert_config.json").write_text(config.to_json())
    return folder


def test_what_should_have_matched_is_an_error(tmp_path, capsys):
    model = random_model("pretraining", CONFIGS["shared"])
    values = values_of(model)
    lost = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm/beta"
    source = google_folder(tmp_path / "lost", without(values, lost), model.config)
    with pytest.raises(InputError, match=rf"`input`=.*1 missing \({lost}\).*`allow_partial`"):
        run(source, tmp_path / "out")
    assert f"{lost}" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    run(source, tmp_path / "out", "albert_tf", allow_partial=True)
    assert_same(values_at(tmp_path / "out"), without(values, lost))
    assert open_weights(str(tmp_path / "out")).step == 7

    extra = {**values, "bert/adapter/kernel": np.zeros((2, 2), "float32")}
    source = google_folder(tmp_path / "more", extra, model.config)
    with pytest.raises(InputError, match=r"1 unknown to the model \(bert/adapter/kernel\)"):
        run(source, tmp_path / "out2")
    # A config that does not go with the weights.
    other = tmp_path / "other.json"
    other.write_text(CONFIGS["three groups of two"].to_json())
    with pytest.raises(
        InputError, match=r"missing \(bert/encoder/transformer/group_0/inner_group_1"
    ):
        run(source, tmp_path / "out3", config=str(other))


def test_a_named_head_is_taken_out(tmp_path):
    model = random_model("pretraining", CONFIGS["shared"])
    source = keras_file(tmp_path / "start", model)
    run(source, tmp_path / "encoder", "albert_tf", head="encoder")
    assert set(values_at(tmp_path / "encoder")) == {w.path for w in model.encoder.weights}
    with pytest.raises(InputError, match=r"`head`=classifier: .* no weights of a classifier"):
        run(source, tmp_path / "classifier", "albert_tf", head="classifier")


@pytest.mark.parametrize(
    ("lacking", "config", "architecture", "task"),
    [
        ("seq_relationship", "shared", "AlbertForMaskedLM", "fill-mask"),
        ("seq_relationship|pooler", "shared", "AlbertForMaskedLM", "fill-mask"),
        ("predictions", "BERT", "BertForNextSentencePrediction", None),
        ("predictions", "shared", "AlbertForPreTraining", "fill-mask"),
    ],
)
def test_models_with_one_head_of_pretraining(tmp_path, lacking, config, architecture, task):
    """As most weights at Hugging Face are: no part is made up, on the way there or back."""
    model = random_model("pretraining", CONFIGS[config])
    values = {w.path: w.numpy() for w in model.weights if not re.search(lacking, w.path)}
    folder = run(google_folder(tmp_path / "mlm", values, model.config), tmp_path / "hf")
    assert json.loads((folder / "config.json").read_text())["architectures"] == [architecture]
    card = (folder / "README.md").read_text()
    assert re.findall("pipeline_tag: (.*)", card) == ([task] if task else [])
    assert_same(values_at(run(folder, tmp_path / "back", "google")), values)
    if task is None:
        assert "AutoModelForNextSentencePrediction.from_pretrained" in card
        encoder = run(folder, tmp_path / "encoder", head="encoder")
        with pytest.raises(InputError, match=r" 7 missing \(cls/predictions/.* `allow_partial`"):
            run(encoder, tmp_path / "none", head="pretraining")


def test_labels_and_results_go_along(tmp_path):
    model = random_model("classifier", CONFIGS["shared"])
    source = run(keras_file(tmp_path / "start", model), tmp_path / "trained", "albert_tf")
    (source / "labels.json").write_text('["bad", "fair", "good"]')
    (source / "eval_results.txt").write_text("eval_accuracy = 0.75\nglobal_step = 5\n")
    folder = run(source, tmp_path / "hf", license="apache-2.0")
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "fair", "2": "good"}
    card = (folder / "README.md").read_text()
    assert "license: apache-2.0" in card.split("---")[1]
    for known in (
        "eval_accuracy | 0.75",
        "bad, fair, good",
        "hidden_size | 24",
        f"model.safetensors | {(folder / 'model.safetensors').stat().st_size:,} bytes",
    ):
        assert known in card
    back = run(folder, tmp_path / "back", "albert_tf")
    assert json.loads((back / "labels.json").read_text()) == ["bad", "fair", "good"]
    again = run(source, tmp_path / "again", "google")
    assert (again / "eval_results.txt").read_text() == (source / "eval_results.txt").read_text()


def heads_of(path):
    names = open_weights(str(path)).tensors
    return {name.partition("/")[0] for name in names if not name.startswith("bert/")}


def test_what_a_classifier_labels_is_read_or_inferred(tmp_path):
    """Hugging Face gives classifiers of sequences and of tokens the same names."""
    tags = ["O", "B-地名", "I-地名", "B-PER", "I-PER"]
    folders = {}
    for name in ("tokcls", "seqcls"):
        folders[name] = tmp_path / name
        shutil.copytree(GOLDEN / f"hf_tiny_{name}", folders[name])
        config = json.loads((folders[name] / "config.json").read_text())
        del config["architectures"]
        if name == "tokcls":
            config["id2label"] = {str(id): tag for id, tag in enumerate(tags)}
        (folders[name] / "config.json").write_text(json.dumps(config))
    assert heads_of(folders["tokcls"]) == {"token_classifier"}
    assert heads_of(folders["seqcls"]) == {"classifier"}

    ours = run(folders["tokcls"], tmp_path / "ours", "albert_tf")
    assert json.loads((ours / "labels.json").read_text()) == tags
    back = run(ours, tmp_path / "back")
    config = json.loads((back / "config.json").read_text())
    assert config["architectures"] == ["AlbertForTokenClassification"]
    assert list(config["id2label"].values()) == tags
    assert config["label2id"]["B-PER"] == 3
    card = (back / "README.md").read_text()
    assert "pipeline_tag: token-classification" in card
    assert "AutoModelForTokenClassification" in card

    # One with a pooler is of old weights; the user has to say so.
    named = run(folders["seqcls"], tmp_path / "named", "albert_tf", head="tagger")
    assert heads_of(named) == {"token_classifier"}


def test_unusable_inputs_are_named(tmp_path):
    model = random_model("pretraining", CONFIGS["shared"])
    folder = run(keras_file(tmp_path / "start", model), tmp_path / "hf")

    def refused(message, source, **flags):
        with pytest.raises(InputError, match=message) as error:
            run(source, tmp_path / "out", "google", **flags)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "out").exists()
        assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]

    refused(r"`input`=.*nowhere: no such file or folder", tmp_path / "nowhere")
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    data = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(data[: len(data) // 2])
    refused(r"cut/model.safetensors: not a safetensors file", cut)
    (cut / "model.safetensors").unlink()
    refused(r"cut: contains no model.safetensors", cut, from_format="huggingface")

    bert = tmp_path / "bert"
    shutil.copytree(folder, bert)
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**config, "model_type": "electra"}))
    refused(r"bert/config.json: model_type='electra'", bert)
    (tmp_path / "start" / "albert_config.json").unlink()
    refused(
        r"model.weights.h5: requires albert_config.json", tmp_path / "start" / "model.weights.h5"
    )
    (tmp_path / "other.json").write_text(CONFIGS["three groups of two"].to_json())
    refused(
        r"model.weights.h5: does not contain the weights of a model with this config",
        tmp_path / "start" / "model.weights.h5",
        config=str(tmp_path / "other.json"),
    )
    google = google_folder(
        tmp_path / "google", {w.path: w.numpy() for w in model.weights}, model.config
    )
    config_file = google / "albert_config.json"
    config = config_file.read_text()
    config_file.unlink()
    refused(r"`config`: required", google)
    config_file.write_text(config)
    (data,) = google.glob("*.data-*")
    data.write_bytes(data.read_bytes()[:100])
    refused(r"google/model.ckpt-7: .* cannot be read", google)


def test_a_projection_between_equal_widths_is_refused(tmp_path):
    """Hugging Face trains one; the original has none."""
    from safetensors.numpy import load_file, save_file

    model = random_model("encoder", CONFIGS["E = H"])
    folder = run(keras_file(tmp_path / "start", model), tmp_path / "hf")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["encoder.embedding_hidden_mapping_in.weight"][0, 1] = 0.5
    save_file(tensors, file)
    with pytest.raises(InputError, match="encoder.embedding_hidden_mapping_in.weight projects"):
        run(folder, tmp_path / "out", "google")
