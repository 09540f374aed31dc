"""AlbertConfig: presets, JSON, errors."""

from __future__ import annotations

import json

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("base", 11_683_584),
        ("large", 17_683_968),
        ("xlarge", 58_724_864),
        ("xxlarge", 222_595_584),
    ],
)
def test_presets_have_the_papers_parameter_counts(size, count):
    for version in (1, 2):
        assert AlbertConfig.preset(size, version).parameter_count() == count


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embedding_size": 64},
        {"num_hidden_groups": 2},
        {"inner_group_num": 2},
        {"hidden_size": 32, "embedding_size": 32},
    ],
)
def test_formula_counts_what_the_encoder_holds(changes):
    from albert_tf.modeling.encoder import AlbertEncoder

    fields = {
        "vocab_size": 50,
        "embedding_size": 16,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": 20,
    }
    config = AlbertConfig(**{**fields, **changes})
    weights = AlbertEncoder(config).weights
    assert sum(weight.value.shape.num_elements() for weight in weights) == config.parameter_count()


def test_version_2_has_no_dropout_and_xxlarge_never_had():
    assert AlbertConfig.preset("base", 1).hidden_dropout_prob == 0.1
    assert AlbertConfig.preset("base", 1).attention_probs_dropout_prob == 0.1
    for size, version in (("base", 2), ("xxlarge", 1)):
        assert AlbertConfig.preset(size, version).hidden_dropout_prob == 0.0


def test_json_comes_back_the_same(tmp_path):
    config = AlbertConfig.preset("large", 1, vocab_size=8000)
    path = tmp_path / "albert_config.json"
    path.write_text(config.to_json())
    assert AlbertConfig.from_json_file(str(path)) == config


def test_reads_the_originals_files(shared):
    config = AlbertConfig.from_json_file(
        str(shared("golden/google_tf1_groups2/albert_config.json"))
    )
    assert (config.num_hidden_groups, config.hidden_size) == (2, 64)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 64}, "hiden_size"),
        (
            {"hidden_size": 100, "num_attention_heads": 12},
            "hidden_size=100.*num_attention_heads=12",
        ),
        ({"num_hidden_layers": 12, "num_hidden_groups": 5}, "num_hidden_groups=5"),
        ({"hidden_act": "swish"}, "swish.*gelu"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob=1.0"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"vocab_size": "many"}, "vocab_size='many'"),
    ],
)
def test_bad_values_are_named(tmp_path, values, message):
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=rf"albert_config.json: .*{message}"):
        AlbertConfig.from_json_file(str(path))


def test_files_that_are_no_config_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.json: no such file"):
        AlbertConfig.from_json_file(str(tmp_path / "nowhere.json"))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InputError, match=r"broken.json: not a JSON file"):
        AlbertConfig.from_json_file(str(broken))
    broken.write_text("[]")
    with pytest.raises(InputError, match=r"broken.json: must hold a JSON object"):
        AlbertConfig.from_json_file(str(broken))


def test_unknown_presets_name_the_known_ones():
    with pytest.raises(InputError, match="base, large, xlarge, xxlarge"):
        AlbertConfig.preset("huge")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_the_files_in_configs_are_the_presets(size, version):
    path = ROOT / "configs" / "model" / f"{size}_v{version}.json"
    assert AlbertConfig.from_json_file(str(path)) == AlbertConfig.preset(size, version)
