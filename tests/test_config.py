"""AlbertConfig: presets, JSON, errors."""

import dataclasses
import json

import pytest

from albert_tf import configs
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


@pytest.mark.parametrize(
    ("size", "heads", "count"),
    [
        ("base", 12, 11_683_584),
        ("large", 16, 17_683_968),
        ("xlarge", 16, 58_724_864),
        ("xxlarge", 64, 222_595_584),
    ],
)
def test_presets_have_the_papers_heads_and_parameter_counts(size, heads, count):
    for version in (1, 2):
        config = AlbertConfig.preset(size, version)
        assert (config.num_attention_heads, config.parameter_count()) == (heads, count)


@pytest.mark.parametrize(
    ("size", "millions", "other"), [("bert_base", 108, "base"), ("bert_large", 334, "large")]
)
def test_bert_has_the_papers_parameter_count_and_the_layers_of_albert(size, millions, other):
    bert, albert = AlbertConfig.preset(size), AlbertConfig.preset(other, 1)
    pooler = bert.hidden_size * (bert.hidden_size + 1)  # not counted in the paper
    assert round((bert.parameter_count() - pooler) / 1e6) == millions
    assert AlbertConfig.preset(size, version=1) == bert == AlbertConfig.from_json_file(size)
    fields = {"embedding_size": albert.hidden_size, "parameter_sharing": "none"}
    assert bert == dataclasses.replace(albert, **fields, num_hidden_groups=None)


# Table 4 of the paper, in millions, by E and then by what is shared.
TABLE_4 = {
    768: {"all": 31, "attention": 83, "ffn": 57, "none": 108},
    128: {"all": 12, "attention": 64, "ffn": 38, "none": 89},
}


@pytest.mark.parametrize("width", TABLE_4)
@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_sharing_has_the_papers_parameter_counts(width, sharing):
    config = AlbertConfig.preset("base", embedding_size=width, parameter_sharing=sharing)
    count = config.parameter_count()
    if sharing == "none":
        # The paper's models that share nothing are counted without the pooler.
        count -= config.hidden_size * (config.hidden_size + 1)
    assert round(count / 1e6) == TABLE_4[width][sharing]


def test_version_2_has_no_dropout_and_xxlarge_never_had():
    assert AlbertConfig.preset("base", 1).hidden_dropout_prob == 0.1
    assert AlbertConfig.preset("base", 1).attention_probs_dropout_prob == 0.1
    for size, version in (("base", 2), ("xxlarge", 1)):
        assert AlbertConfig.preset(size, version).hidden_dropout_prob == 0.0


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(AlbertConfig)])
@pytest.mark.parametrize("value", [True, "12", [1], {}])
def test_no_field_takes_a_value_of_another_kind(name, value):
    with pytest.raises(InputError, match=rf"{name}="):
        AlbertConfig.from_dict({name: value})


@pytest.mark.parametrize(
    ("sharing", "groups"), [("all", 1), ("attention", 12), ("ffn", 12), ("none", 12), (None, 1)]
)
def test_sharing_sets_the_groups_and_must_agree_with_them(sharing, groups):
    assert AlbertConfig(parameter_sharing=sharing).num_hidden_groups == groups
    agreeing = AlbertConfig(parameter_sharing=sharing, num_hidden_groups=groups)
    assert agreeing == AlbertConfig(parameter_sharing=sharing)
    if sharing is not None:
        with pytest.raises(
            InputError, match=rf"parameter_sharing='{sharing}' contradicts num_hidden_groups=6"
        ):
            AlbertConfig(parameter_sharing=sharing, num_hidden_groups=6)


BERT = AlbertConfig.preset("bert_base")


@pytest.mark.parametrize(
    ("config", "changes", "groups"),
    [
        (BERT, {"num_hidden_layers": 6}, 6),
        (AlbertConfig.from_json_file("bert_large"), {"num_hidden_layers": 6}, 6),
        (AlbertConfig.preset("base"), {"parameter_sharing": "none"}, 12),
        (dataclasses.replace(BERT, hidden_dropout_prob=0.0), {"num_hidden_layers": 4}, 4),
        (BERT, {"parameter_sharing": None}, 12),  # as before, the number stays
    ],
)
def test_groups_follow_what_a_copy_changes(config, changes, groups):
    changed = dataclasses.replace(config, **changes)
    assert changed.num_hidden_groups == groups
    with pytest.raises(InputError, match="contradicts num_hidden_groups=5"):
        dataclasses.replace(config, parameter_sharing="none", num_hidden_groups=5)


@pytest.mark.parametrize("name", configs.model_configs())
def test_no_folder_hides_a_shipped_config(name, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert AlbertConfig.from_json_file(name) == AlbertConfig.preset(name)
    (tmp_path / name).rmdir()
    (tmp_path / name).write_text(AlbertConfig(vocab_size=77).to_json())
    assert AlbertConfig.from_json_file(name).vocab_size == 77
    assert f"{name}: the file {tmp_path / name}, not what is shipped" in caplog.text


@pytest.mark.parametrize("sharing", [None, "all", "attention", "ffn", "none"])
def test_dictionaries_come_back_the_same(sharing):
    config = AlbertConfig(parameter_sharing=sharing, hidden_act="relu", initializer_range=0.1)
    values = json.loads(json.dumps(config.to_dict()))
    assert AlbertConfig.from_dict(values) == config
    # The original knows nothing of it.
    assert ("parameter_sharing" in values) == (sharing is not None)


ONLY_STRUCTURE = {
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "down_scale_factor": 1,
    "layers_to_keep": [],
    "ln_type": "postln",
}


def test_what_published_files_say_besides_is_read():
    symbols = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    assert AlbertConfig.from_dict({**ONLY_STRUCTURE, **symbols}) == AlbertConfig()


HUGGING_FACE = {
    "model_type": "albert",
    "architectures": ["AlbertForMaskedLM"],
    "classifier_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu_new",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_groups": 1,
    "torch_dtype": "float32",
    "transformers_version": "5.0.0",
}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *(("gelu_new", "gelu"), ("gelu_pytorch_tanh", "gelu"), ("gelu", "gelu_exact")),
        *(("relu", "relu"), (None, "gelu")),
    ],
)
def test_hugging_faces_files_are_read(theirs, ours):
    values = {**HUGGING_FACE, "hidden_act": theirs}
    if theirs is None:
        del values["hidden_act"]
    config = AlbertConfig.from_dict(values)
    assert config == AlbertConfig(hidden_size=64, num_attention_heads=4, hidden_act=ours)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 64}, "unknown key 'hiden_size'"),
        ({"hidden_size": 100, "num_attention_heads": 12}, "hidden_size=100.*heads=12"),
        ({"num_hidden_layers": 12, "num_hidden_groups": 5}, "num_hidden_layers=12.*groups=5"),
        ({"hidden_act": "swish"}, "hidden_act='swish'.*gelu"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob=1.0"),
        ({"vocab_size": 0}, "vocab_size=0: must be a whole number"),
        ({"num_hidden_groups": -3}, "num_hidden_groups=-3: must be a whole number"),
        ({"intermediate_size": 2.0}, "intermediate_size=2.0: must be a whole number"),
        ({"parameter_sharing": "some"}, "parameter_sharing='some'.*all, attention, ffn, none"),
        ([], "must be object, not"),
        *(({**ONLY_STRUCTURE, key: 2}, f"{key}=2: only ") for key in ONLY_STRUCTURE),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps=0.0: must be above 0"),
        ({**HUGGING_FACE, "model_type": "roberta"}, "model_type='roberta': .*albert and bert"),
        ({"architectures": ["ElectraModel"]}, "architectures='ElectraModel': .*albert and bert"),
        ({"model_type": [], "architectures": 5}, r"model_type=\[\]: another network"),
        ({"model_type": "bert", "embedding_size": 8}, "embedding_size=8: only 768 is supported"),
        ({**HUGGING_FACE, "quantization_config": {"bits": 4}}, "quantization_config=.*only None"),
        ({**HUGGING_FACE, "position_embedding_type": "relative_key"}, "position_embedding_type="),
        ({**HUGGING_FACE, "hidden_act": "silu"}, "hidden_act='silu'.*gelu"),
    ],
)
def test_what_a_file_may_not_say_is_named(tmp_path, values, message):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=rf"/config.json: {message}"):
        AlbertConfig.from_json_file(str(path))


@pytest.mark.parametrize("recognized_by", ["model_type", "architectures"])
def test_other_keys_of_hugging_faces_files_are_named_once(caplog, recognized_by):
    kept = {key: HUGGING_FACE[key] for key in ("hidden_size", "num_attention_heads", recognized_by)}
    more = {"xla_device": None, "auto_map": {}, "_num_labels": 2, "gap_size": 0}
    more |= {"classifier_dropout": 0.2, "quantization_config": None, "tie_word_embeddings": False}
    more |= {"position_embedding_type": None, "hidden_act": "gelu_accurate"}
    with caplog.at_level("INFO"):
        for _ in range(3):
            config = AlbertConfig.from_dict({**kept, **more}, source=f"{recognized_by}/config.json")
    assert config == AlbertConfig(hidden_size=64, num_attention_heads=4)
    (line,) = caplog.messages
    assert line.startswith(f"{recognized_by}/config.json: ignored")
    assert line.endswith(": _num_labels, auto_map, classifier_dropout, xla_device")
    with pytest.raises(InputError, match="ours: unknown key 'xla_device'"):
        AlbertConfig.from_dict({**AlbertConfig().to_dict(), "xla_device": None}, source="ours")


def test_what_is_no_config_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.json: no such file"):
        AlbertConfig.from_json_file(str(tmp_path / "nowhere.json"))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match=r"broken.json: not JSON"):
        AlbertConfig.from_json_file(str(tmp_path / "broken.json"))
    with pytest.raises(InputError, match="base, large, xlarge, xxlarge, bert_base, bert_large"):
        AlbertConfig.preset("huge")


@pytest.mark.parametrize(
    "key",
    ["num_hidden_groups", "inner_group_num", "gap_size", "layers_to_keep", "net_structure_type"],
)
def test_a_config_of_the_original_may_have_keys_of_bert(key):
    published = {"num_hidden_groups": 1, "inner_group_num": 1, "gap_size": 0, "layers_to_keep": []}
    published["net_structure_type"] = 0
    values = {"embedding_size": 128, "hidden_size": 312, "num_attention_heads": 12}
    values |= {"directionality": "bidi", "pooler_type": "first_token", "ln_type": "postln"}
    config = AlbertConfig.from_dict({**values, key: published[key]})
    assert config == AlbertConfig(embedding_size=128, hidden_size=312, num_attention_heads=12)
    with pytest.raises(InputError, match="ln_type='preln': only 'postln' is supported"):
        AlbertConfig.from_dict({**values, key: published[key], "ln_type": "preln"})
