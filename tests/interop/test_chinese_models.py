"""Published Chinese models, imitated with random weights: the same outputs, or a refusal."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.loading import load_weights, open_weights
from albert_tf.modeling.heads import AlbertForPreTraining
from tests.interop.test_convert import of_transformers, run
from tests.support import layouts
from tests.support.models import features, letters
from tests.support.oracle import Oracle

# albert_config_tiny.json of albert_zh, with smaller numbers.
ALBERT_ZH = {
    "attention_probs_dropout_prob": 0.0, "directionality": "bidi", "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "hidden_size": 24, "embedding_size": 8, "initializer_range": 0.02,
    "intermediate_size": 40, "max_position_embeddings": 20, "num_attention_heads": 3,
    "num_hidden_layers": 4, "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform", "type_vocab_size": 2, "vocab_size": 70,
    "ln_type": "postln",
}  # fmt: skip


# Without the names that a config of the original lacks.
_BERTS = ("directionality", "pooler_", "ln_type")
PLAIN = {name: value for name, value in ALBERT_ZH.items() if not name.startswith(_BERTS)}


def albert_zh_variables(vocabulary=70, e=8, h=24, i=40, positions=20):
    """Name and shapes of `run_pretraining.py` of albert_zh, with random values."""
    layer = "bert/encoder/layer_shared"
    dense = {
        **{f"{layer}/attention/self/{name}": (h, h) for name in ("query", "key", "value")},
        f"{layer}/attention/output/dense": (h, h),
        f"{layer}/intermediate/dense": (h, i),
        f"{layer}/output/dense": (i, h),
        "bert/pooler/dense": (h, h),
        "cls/predictions/transform/dense": (h, h),
    }
    norms = (
        "bert/embeddings", f"{layer}/attention/output", f"{layer}/output",
        "cls/predictions/transform",
    )  # fmt: skip
    shapes = {
        "bert/embeddings/word_embeddings": (vocabulary, e),
        "bert/embeddings/word_embeddings_2": (e, h),
        "bert/embeddings/token_type_embeddings": (2, h),
        "bert/embeddings/position_embeddings": (positions, h),
        "cls/predictions/output_bias": (vocabulary,),
        "cls/seq_relationship/output_weights": (2, h),
        "cls/seq_relationship/output_bias": (2,),
    }
    for name, shape in dense.items():
        shapes |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
    for name in norms:
        shapes |= {f"{name}/LayerNorm/{part}": (h,) for part in ("beta", "gamma")}
    random = np.random.default_rng(1)
    return {name: random.normal(0.1, 0.3, shape) for name, shape in shapes.items()}


# Scopes in the layer of albert_zh, and in that of the original.
LAYER, BLOCK = "bert/encoder/layer_shared", "bert/encoder/transformer/group_0/inner_group_0"
SCOPES = {
    "attention/self": "attention_1/self",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}


def albert_zh_outputs(config, variables, inputs):
    """Return what albert_zh computes: an ALBERT of E = H whose embeddings are a product."""
    table = "bert/embeddings/word_embeddings"
    weights = {**variables, table: variables[table] @ variables[f"{table}_2"]}
    for theirs, scope in SCOPES.items():
        for name in [name for name in weights if name.startswith(f"{LAYER}/{theirs}/")]:
            weights[name.replace(f"{LAYER}/{theirs}", f"{BLOCK}/{scope}")] = weights.pop(name)
    outputs = Oracle(config, weights).pretraining(inputs)
    return {name: outputs[name] for name in outputs if name != "encoder_outputs"}


def write_checkpoint(prefix, values):
    layouts.save(prefix, {name: value.astype("f4") for name, value in values.items()})


@pytest.fixture(scope="module")
def albert_zh(tmp_path_factory):
    """Return an archive of albert_zh, with the state of its optimizer."""
    folder = tmp_path_factory.mktemp("albert_zh") / "albert_tiny"
    folder.mkdir()
    variables = albert_zh_variables()
    slots = {f"{name}/lamb_{m}": value for name, value in variables.items() for m in "mv"}
    write_checkpoint(folder / "albert_model.ckpt", {**variables, **slots})
    (folder / "albert_config_tiny.json").write_text(json.dumps(ALBERT_ZH))
    (folder / "vocab_chinese.txt").write_text(letters(70))
    return folder, variables


def assert_computes(model, inputs, expected):
    outputs = model(inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.integration
def test_albert_zh_computes_the_same(albert_zh, tmp_path):
    folder, variables = albert_zh
    config = AlbertConfig.from_json_file(str(folder / "albert_config_tiny.json"))
    inputs = features(config, seed=3)
    expected = albert_zh_outputs(config, variables, inputs)
    model = AlbertForPreTraining(config)
    matched = load_weights(model, str(folder))
    assert (matched.missing, matched.unused) == ([], [])
    assert matched.notes == [
        "note: the word embeddings are stored as two factors, 70x8 and 8x24 (albert_zh), and "
        "loaded as their product, 70x24: the outputs are the same, and training changes the product"
    ]
    assert_computes(model, inputs, expected)
    # The archive has all that a conversion needs; its result is an ordinary model.
    assert find_adjacent_files(str(folder)).vocabulary == str(folder / "vocab_chinese.txt")
    converted = open_weights(str(run(folder, tmp_path / "hf")))
    assert (converted.config, len(converted.skipped), converted.notes) == (config, 2, ())
    twin = AlbertForPreTraining(config)
    load_weights(twin, str(tmp_path / "hf"))
    assert_computes(twin, inputs, expected)


def test_other_networks_are_refused(albert_zh, tmp_path):
    folder, variables = albert_zh
    with pytest.raises(InputError, match=r"zh.json: ln_type='preln': .*\(pre-norm\).*_google"):
        AlbertConfig.from_dict({**ALBERT_ZH, "ln_type": "preln"}, source="zh.json")
    (tmp_path / "albert_config_xxlarge.json").write_text(
        json.dumps({**ALBERT_ZH, "ln_type": "preln"})
    )
    for file in folder.glob("albert_model.ckpt*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"xxlarge.json: ln_type='preln': "):
        open_weights(str(tmp_path))
    grouped = {
        "bert/embeddings/word_embeddings": variables["bert/embeddings/word_embeddings"],
        "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel": (
            np.zeros([6, 10, 4])
        ),
    }
    write_checkpoint(tmp_path / "fast.ckpt", grouped)
    with pytest.raises(InputError, match=r"fast.ckpt: .*ffn_1.* divided into 4 groups"):
        open_weights(str(tmp_path / "fast.ckpt"))
    names = [f"bert/embeddings/word_embeddings{factor}" for factor in ("", "_2")]
    write_checkpoint(tmp_path / "factors.ckpt", {name: variables[name].T for name in names})
    with pytest.raises(InputError, match=r"word_embeddings_2 \[24, 8\] are not two factors"):
        open_weights(str(tmp_path / "factors.ckpt"))
    # A config of the original's form has no word for the product.
    plain = AlbertConfig(**PLAIN)
    with pytest.raises(InputError, match=r"word_embeddings x word_embeddings_2 \[70, 24\]\), but"):
        load_weights(AlbertForPreTraining(plain), str(folder))


# config.json of a Chinese model on Hugging Face that transformers 2.2 wrote, with smaller numbers.
HUGGING_FACE = {
    **PLAIN,
    "architectures": ["AlbertForMaskedLM"], "bos_token_id": 2, "classifier_dropout_prob": 0.1,
    "down_scale_factor": 1, "eos_token_id": 3, "gap_size": 0, "inner_group_num": 1,
    "layer_norm_eps": 1e-12, "model_type": "albert", "net_structure_type": 0,
    "num_hidden_groups": 1, "num_memory_blocks": 0, "pad_token_id": 0,
    "tokenizer_class": "BertTokenizer",
}  # fmt: skip


def their_model(name):
    """Return a model of transformers with random weights, in float64."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(2)
    config = transformers.AlbertConfig(**HUGGING_FACE)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.1, 0.3)
    return model


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("AlbertForMaskedLM", "masked_lm_logits"),  # as voidful/albert_chinese_tiny
        ("AlbertModel", "sequence_output"),  # whose names have no prefix
    ],
)
def test_hugging_faces_chinese_models_compute_the_same(tmp_path, name, output):
    theirs = their_model(name)
    state = {name: value.numpy().copy() for name, value in theirs.state_dict().items()}
    if name == "AlbertForMaskedLM":  # files of that time have copies, and a pooler
        assert {"predictions.decoder.weight", "predictions.decoder.bias"} <= set(state)
        state |= {"albert.pooler.weight": np.ones([24, 24], np.float32)}
        state |= {"albert.pooler.bias": np.ones(24, np.float32)}
    save_file(state, str(tmp_path / "model.safetensors"))
    fields = {**HUGGING_FACE, "architectures": [name]}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    (tmp_path / "vocab.txt").write_text(letters(70))
    adjacent = find_adjacent_files(str(tmp_path))
    assert adjacent.vocabulary == str(tmp_path / "vocab.txt")
    config = open_weights(str(tmp_path)).config
    model, inputs = AlbertForPreTraining(config), features(config, seed=4)
    matched = load_weights(model, str(tmp_path))
    assert matched.unused == []
    expected_missing = ("cls/seq_relationship/",)
    if name == "AlbertModel":
        expected_missing = ("cls/",)
    assert all(path.startswith(expected_missing) for path in matched.missing)
    outputs = of_transformers(tmp_path, name, inputs)
    real = inputs["input_mask"][..., None] > 0  # attention to padding differs, and nothing reads it
    actual, expected = model(inputs)[output], next(iter(outputs.values()))
    np.testing.assert_allclose(actual * real, expected * real, rtol=0, atol=1e-5)
