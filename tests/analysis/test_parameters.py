"""Parameters and operations by part against Keras models and the formulas of the whole."""

import json
import math

import pytest

from albert_tf.analysis.parameters import HEADS, bert_of, find_config, parts_of
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import encoder_flops, pretraining_flops
from albert_tf.modeling.heads import AlbertForPreTraining
from tests.conftest import run_python
from tests.support.models import CONFIGS

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
    assert (
        bert_of(config).parameter_count()
        == {
            "base": 109_081_344,
            "large": 334_607_360,
            "xlarge": 1_275_291_648,
            "xxlarge": 2_558_332_928,
        }[size]
    )


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
