"""Every analysis as a user runs it, and the counts of parameters and operations by part.

Distances of layers and statistics of attention against plain loops.
"""

import base64
import dataclasses
import json
import math
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.analysis import __main__ as command
from albert_tf.analysis import layers
from albert_tf.analysis.__main__ import ANALYSES, run_analysis
from albert_tf.analysis.analysis_options import labeled_models
from albert_tf.analysis.attention import (
    attention_maps,
    attention_page,
    attention_statistics,
    uniform_statistics,
)
from albert_tf.analysis.layers import LayerDistances, layer_distances, picture
from albert_tf.analysis.parameters import HEADS, bert_of, find_config, parts_of
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import encoder_flops, pretraining_flops
from albert_tf.modeling.heads import AlbertForPreTraining
from tests.conftest import run_python
from tests.support import tiny
from tests.support.html import Reader
from tests.support.models import CONFIGS, letters, random_model, write_trained

HOSTILE = ["[CLS]", "</script><script>alert(1)", "<img src=x onerror=alert(1)>", '"&\u2028']


def test_the_page_escapes_all_text():
    weights = np.full((2, 3, 4, 4), 0.25)
    weights[1, 2, 3] = [0.5, 0, 0.125, 0.375]
    tables = {"<entropy>": np.arange(6.0).reshape(2, 3)}
    text = attention_page("<script>model", HOSTILE, weights, tables, ["</script>"] * 6)
    page = Reader(text)
    assert [name for name, _ in page.elements].count("script") == 2
    assert not {"img", "link", "iframe"} & page.names()
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert "https://" not in text
    for shown in (*HOSTILE[:3], "Attention of <script>model", "<entropy>", "5.00"):
        assert shown in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["tokens"] == HOSTILE
    stored = np.frombuffer(base64.b64decode(data["weights"]), "<u2").reshape(weights.shape)
    np.testing.assert_allclose(stored / data["scale"], weights, atol=1e-5)


def test_labels_of_models(tmp_path):
    names = ("a=out/albert", "org/name", str(tmp_path))
    assert labeled_models(names) == {
        "a": "out/albert",
        "name": "org/name",
        tmp_path.name: str(tmp_path),
    }
    with pytest.raises(InputError, match="`model`=out/name: name is already the label of org/name"):
        labeled_models(["org/name", "out/name"])
    with pytest.raises(InputError, match="`model`=a=: must be a name of a model, or LABEL=NAME"):
        labeled_models(["a="])


def run(name: str, folder: pathlib.Path, **flags) -> dict:
    """Return the JSON file of an analysis."""
    run_analysis(name, ANALYSES[name][0](output_dir=str(folder / "out"), **flags))
    return json.loads((folder / "out" / f"{name}.json").read_text())


@pytest.mark.integration
def test_every_analysis_of_a_training_folder(tmp_path, capsys, monkeypatch):
    trained = write_trained(tmp_path / "trained")
    (tmp_path / "text.txt").write_text("a cat\n\nb c\n")
    models = (f"x={trained}", f"y&<={trained}")
    both = run("layers", tmp_path, model=models, input_file=str(tmp_path / "text.txt"))["models"]
    assert [each["label"] for each in both] == ["x", "y&<"]
    assert both[0]["l2"] == both[1]["l2"]
    assert both[0]["tokens"] == 6 + 4
    assert "no picture is drawn: with one layer, there is no curve\n" in capsys.readouterr().out
    two = LayerDistances(np.ones(2), np.ones(2), np.zeros(2), 1)
    svg = ElementTree.fromstring(picture({"y&<": two}))
    assert "y&<" in "".join(svg.itertext())
    assert "prefers-color-scheme: dark" in "".join(svg.itertext())

    found = run("attention", tmp_path, model=trained, text="a", text_pair="[MASK]")
    assert "\nif uniform         1.609  0.200  0.400 " in capsys.readouterr().out
    assert found["tokens"] == ["[CLS]", "a", "[SEP]", "[MASK]", "[SEP]"]
    assert np.shape(found["statistics"]["entropy"]) == (1, 2)
    assert "script" in Reader((tmp_path / "out" / "attention.html").read_text()).names()

    flags = {"model": f"{trained}/albert_config.json", "text": "a [MASK]"}
    run("attention", tmp_path, **flags)
    with pytest.raises(InputError, match="`model`=base_v2: is a config without weights"):
        run("attention", tmp_path / "failed", **{**flags, "model": "base_v2"})
    assert not (tmp_path / "failed/out").exists()
    run("parameters", tmp_path, model=("base_v2",))
    assert "wrote parameters.json, parameters.svg to " in capsys.readouterr().out

    monkeypatch.setattr("sys.argv", ["albert-analyze", "heads"])
    with pytest.raises(SystemExit):
        command.cli()
    assert capsys.readouterr().err == (
        "albert-analyze: error: heads: the first word must be one of layers, pairs, "
        "attention, parameters\n"
    )


# The first pattern in the path of a variable -> its part.
PATTERNS = {
    "word_embeddings": "token embeddings",
    "position_embeddings": "position and segment embeddings",
    "token_type_embeddings": "position and segment embeddings",
    "cls/predictions": "masked-LM head",
    "cls/seq_relationship": "sentence-order head",
    "embedding_hidden_mapping_in": "projection",
    "LayerNorm": "layer norms",
    "attention_1": "attention",
    "ffn_1": "feed-forward",
    "pooler": "pooler",
}


@pytest.mark.parametrize("name", ["three groups of two", "BERT", "shared attention", "E = H"])
def test_parts_have_the_parameters_of_the_model(name):
    counts: dict[str, int] = {}
    for weight in AlbertForPreTraining(CONFIGS[name]).trainable_weights:
        part = next(part for pattern, part in PATTERNS.items() if pattern in weight.path)
        counts[part] = counts.get(part, 0) + math.prod(weight.shape)
    parts = parts_of(CONFIGS[name], length=8, predictions=2)
    assert {part.name: part.parameters for part in parts if part.parameters} == counts


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_sums_are_those_of_the_formulas(size, sharing):
    config, length = AlbertConfig.preset(size, parameter_sharing=sharing), 96
    for each in (config, bert_of(config)):
        parts = {part.name: part for part in parts_of(each, length, predictions=length - 1)}
        encoder = [part for name, part in parts.items() if name not in HEADS]
        assert sum(part.parameters for part in encoder) == each.parameter_count()
        without_pooler = sum(part.flops for part in encoder) - parts["pooler"].flops
        assert without_pooler == encoder_flops(each, length)
        total = sum(part.flops for part in parts.values())
        assert 3 * total == pretraining_flops(each, length, length - 1)
    sizes = {"base": 109_081_344, "large": 334_607_360}
    sizes |= {"xlarge": 1_275_291_648, "xxlarge": 2_558_332_928}
    assert bert_of(config).parameter_count() == sizes[size]


def test_configs_are_found_by_name_file_or_folder(tmp_path):
    for name in ("config.json", "model.ckpt-7.index"):
        (tmp_path / name).write_text(CONFIGS["BERT"].to_json())
    for name in map(str, (tmp_path, tmp_path / "config.json", tmp_path / "model.ckpt-7")):
        assert find_config(name) == CONFIGS["BERT"]
    assert find_config("large_v1") == AlbertConfig.preset("large", version=1)
    (tmp_path / "empty").mkdir()
    for name, message in [
        ("large_v3", "`model`=large_v3: no such file, folder or name; names are .*base_v1, "),
        (f"{tmp_path}/empty", "no albert_config.json or config.json in .*/empty"),
    ]:
        with pytest.raises(InputError, match=message):
            find_config(name)


COUNT = """
import runpy, sys
sys.argv = ["albert-analyze", "parameters", *sys.argv[1:]]
try:
    runpy.run_module("albert_tf.analysis", run_name="__main__")
finally:
    assert not {"keras", "tensorflow", "jax"} & set(sys.modules)
"""


@pytest.mark.integration
def test_counting_loads_no_framework(tmp_path):
    (tmp_path / "own").mkdir()
    config = CONFIGS["shared feed-forward"]
    (tmp_path / "own" / "albert_config.json").write_text(config.to_json())
    flags = [f"--config=base_v2,{tmp_path}/own", f"--output_dir={tmp_path}/out"]
    process = run_python("-c", COUNT, *flags)
    assert process.returncode == 0, process.stderr
    assert "11,683,584" in process.stdout
    models = json.loads((tmp_path / "out" / "parameters.json").read_text())["models"]
    names = ["base_v2", "BERT as base_v2", "own", "BERT as own"]
    assert [model["name"] for model in models] == names
    assert models[2]["config"] == config.to_dict()
    picture = (tmp_path / "out" / "parameters.svg").read_text()
    assert all(name in picture for name in [*names, "11.8", "feed-forward"])


CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> albert_tf.Tokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(tiny.VOCAB))
    return albert_tf.Tokenizer.load(str(path))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return random_model("pretraining", CONFIG)


def test_distances_are_means_over_tokens(model, tokenizer, monkeypatch):
    monkeypatch.setattr(layers, "_BATCH", 2)
    texts = ["a cat sat", "b", "a very long text, longer than it reads"]
    rows = []
    for text in texts:
        # One shape for all texts, as JAX compiles every operation for each.
        features = tokenizer(text, max_length=12, padding="max_length")
        outputs = model.encoder(features, output_hidden_states=True)
        hidden = [keras.ops.convert_to_numpy(each)[0] for each in outputs["hidden_states"]]
        for token in range(features["input_mask"].sum()):
            pairs = [(x[token], y[token]) for x, y in zip(hidden[:-1], hidden[1:], strict=True)]
            cosines = [x @ y / math.sqrt((x @ x) * (y @ y)) for x, y in pairs]
            distances = [math.dist(x, y) for x, y in pairs]
            rows.append([distances, cosines, [math.degrees(math.acos(c)) for c in cosines]])
    found = layer_distances(model.encoder, tokenizer, texts)
    assert found.tokens == len(rows) == 9 + 3 + 12
    expected = np.mean(rows, axis=0)
    np.testing.assert_allclose([found.l2, found.cosine], expected[:2], atol=1e-5)
    np.testing.assert_allclose(found.degrees, expected[2], atol=1e-3)


def test_statistics_of_attention(model, tokenizer):
    maps = attention_maps(model.encoder, tokenizer, "ab [MASK]", "c d")
    assert maps.tokens == ["[CLS]", "a", "##b", "[MASK]", "[SEP]", "c", "d", "[SEP]"]
    assert maps.weights.shape == (2, 2, 8, 8)
    np.testing.assert_allclose(maps.weights.sum(-1), 1, atol=1e-5)
    found = attention_statistics(maps)
    uniform = dict.fromkeys(found, 1 / 8) | {"entropy": math.log(8), "sep": 2 / 8}
    assert uniform_statistics(maps) == pytest.approx(uniform)
    for layer in range(2):
        for head in range(2):
            weights = maps.weights[layer, head].tolist()
            expected = {
                "entropy": sum(-p * math.log(p) for row in weights for p in row) / 8,
                "cls": sum(row[0] for row in weights) / 8,
                "sep": sum(row[4] + row[7] for row in weights) / 8,
                "same": sum(weights[i][i] for i in range(8)) / 8,
                "previous": sum(weights[i][i - 1] for i in range(1, 8)) / 7,
                "next": sum(weights[i][i + 1] for i in range(7)) / 7,
            }
            for name, value in expected.items():
                assert found[name][layer, head] == pytest.approx(value, abs=1e-5), name
    with pytest.raises(InputError, match="`text`: 14 tokens; the model reads at most 12"):
        attention_maps(model.encoder, tokenizer, "abcdefghijkl")
