"""Every place that publishes weights: fetched by name from an imitation, loaded, and the same.

Files of the Hugging Face Hub are cached, resumed and there offline; errors have one line.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.hub.huggingface import commit_of, download, parse_name
from albert_tf.hub.names import local_weights, pinned_name, source_of
from albert_tf.interop import huggingface
from albert_tf.interop.saved_model import find_preset
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training.command_line import command_line
from albert_tf.training.restoring import origin_file, with_local_weights
from albert_tf.weights import Tensor, Weights
from tests.conftest import GOLDEN, ROOT, refusal
from tests.end_to_end.conftest import call
from tests.interop.test_convert import run
from tests.support import layouts, tiny
from tests.support.finetuning import word_pieces
from tests.support.hub import COMMIT, Hub
from tests.support.hub import serving as serving_hub
from tests.support.models import random_model
from tests.support.servers import error_of, serving


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """Yield a Hugging Face Hub with an empty folder to fill, and an empty cache."""
    from huggingface_hub import constants

    folder = tmp_path / "published"
    folder.mkdir()
    # The library reads the environment when it is loaded.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving_hub(folder, "models/albert/albert-base-v2") as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("{")
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.endpoint}/{''.join(template[1:])}"
        )
        yield hub


VOCABULARY = GOLDEN / "own_text" / "vocabulary.model"


def config_for(vocab_size: int) -> AlbertConfig:
    sizes = {"vocab_size": vocab_size, "max_position_embeddings": 32}
    return dataclasses.replace(tiny.WITHOUT_DROPOUT, **sizes)


def check_loads(name: str, config: AlbertConfig, values: dict[str, np.ndarray]) -> None:
    """Load published weights in every way that takes a name, and compare the values."""
    tokenizer = albert_tf.Tokenizer.load(name)
    assert tokenizer.vocab_size == config.vocab_size
    encoder = albert_tf.from_preset(name)
    assert encoder.config == config
    again = albert_tf.AlbertEncoder(config)
    assert albert_tf.load_weights(again, name).missing == []
    for model in (encoder, again):
        for weight in model.weights:
            np.testing.assert_array_equal(weight.numpy(), values[weight.path], weight.path)
    classifier = albert_tf.from_preset(
        name, albert_tf.AlbertForSequenceClassification, num_labels=3
    )
    np.testing.assert_array_equal(classifier.encoder.weights[0].numpy(), encoder.weights[0].numpy())


NAMES = {
    "albert_base_v2": (
        layouts.google_checkpoint,
        "storage.googleapis.com/albert_models/albert_base_v2.tar.gz",
    ),
    "albert_base_zh.tar.gz": (
        layouts.google_checkpoint,
        "storage.googleapis.com/albert_models/albert_base_zh.tar.gz",
    ),
    "https://tfhub.dev/google/albert_base/3": (
        layouts.module_of_tensorflow_1,
        "tfhub.dev/google/albert_base/3?tf-hub-format=compressed",
    ),
    "https://tfhub.dev/tensorflow/albert_en_base/3": (
        layouts.module_of_tensorflow_2,
        "tfhub.dev/tensorflow/albert_en_base/3?tf-hub-format=compressed",
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_archives(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    tokenizer = albert_tf.Tokenizer.load(VOCABULARY)
    if "_zh" in name:
        tokenizer = word_pieces(tmp_path, "中文")
    config = config_for(tokenizer.vocab_size)
    values = {w.path: w.numpy() for w in random_model("pretraining", config).weights}
    write, address = NAMES[name]
    write(tmp_path / "published", config, values, pathlib.Path(tokenizer.path))
    with serving({address: layouts.packed(tmp_path / "published")}) as server:
        monkeypatch.setenv("ALBERT_TF_MIRROR", server.address)
        check_loads(name, config, values)
    assert len(server.requests) == 1


# Keys of config.json besides the shape of the model.
_ENGLISH = {
    "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2,
    "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "eos_token_id": 3, "gap_size": 0,
    "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "inner_group_num": 1,
    "layer_norm_eps": 1e-12, "model_type": "albert", "net_structure_type": 0,
    "num_memory_blocks": 0, "pad_token_id": 0,
}  # fmt: skip


def write_repository(folder: pathlib.Path) -> tuple[AlbertConfig, dict[str, np.ndarray]]:
    """albert/albert-base-v2 in small: keys of the config, and tensors."""
    config = config_for(albert_tf.Tokenizer.load(str(VOCABULARY)).vocab_size)
    values = {w.path: w.numpy() for w in random_model("pretraining", config).weights}
    fields = {"architectures": ["AlbertForMaskedLM"]}
    huggingface.write_weights(str(folder), values, config, fields)
    shape = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**shape, **_ENGLISH}))
    # Older versions of transformers wrote buffers and copies as well.
    tensors = load_file(folder / "model.safetensors")
    tensors["albert.embeddings.position_ids"] = np.arange(32)[None]
    table = tensors["albert.embeddings.word_embeddings.weight"]
    tensors["predictions.decoder.weight"] = table.copy()
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(VOCABULARY, folder / "spiece.model")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    (folder / "rust_model.ot").write_bytes(b"another framework's")
    return config, values


@pytest.mark.integration
def test_a_repository_of_the_hugging_face_hub(hub, tmp_path):
    config, values = write_repository(hub.folder)
    (hub.folder / "pytorch_model.bin").write_bytes(b"the same as a pickle")
    check_loads("albert/albert-base-v2", config, values)
    assert albert_tf.Tokenizer.load("albert/albert-base-v2").do_lower_case is False
    output = run("albert/albert-base-v2", tmp_path / "converted")
    card = (output / "README.md").read_text()
    assert f"weights are https://huggingface.co/albert/albert-base-v2, commit {COMMIT}." in card
    snapshot = next((tmp_path / "cache").glob("**/snapshots/*"))
    assert not [name for name in os.listdir(snapshot) if name.endswith((".ot", ".bin"))]
    assert pinned_name(str(snapshot)) == f"albert/albert-base-v2@{COMMIT}"
    assert source_of(str(output)) is None
    options = ClassificationOptions(output_dir="out", init_checkpoint=str(snapshot))
    assert f"--init_checkpoint=albert/albert-base-v2@{COMMIT}" in command_line(options)


PROGRAMS = {
    "run_pretraining.py": (
        "--init_checkpoint", "--albert_config_file=base_v2", "--output_dir=out", "--do_train",
        "--input_file=data",
    ),
    "run_classifier.py": (
        "--init_checkpoint", "--output_dir=out", "--do_train", "--train_file=data",
    ),
    "run_squad.py": ("--init_checkpoint", "--output_dir=out", "--do_train", "--train_file=data"),
    "export_saved_model.py": ("--init_checkpoint", "--export_path=out"),
    "convert_checkpoint.py": ("--input", "--output=out", "--to=google"),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_looks_names_up(hub, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").touch()
    flag, *words = PROGRAMS[program]
    expected = f"`{flag[2:]}`=albert/another: no local file or folder, and no model"
    assert expected in refusal(call, program, f"{flag}=albert/another", *words)
    assert sorted(os.listdir(tmp_path)) == ["data", "published"]


@pytest.mark.integration
@pytest.mark.parametrize("parts", [1, 2])
def test_a_repository_with_a_pickle_only(hub, tmp_path, monkeypatch, parts):
    config, values = write_repository(hub.folder)
    layouts.rewrite_weights(hub.folder, "pytorch_model.bin", parts)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(InputError, match=r"`name`=.* only pytorch_model.bin, .*pip install"):
            albert_tf.from_preset("albert/albert-base-v2")
        assert not list(tmp_path.glob("cache/**/pytorch_model*"))
    check_loads("albert/albert-base-v2", config, values)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert albert_tf.from_preset("albert/albert-base-v2").config == config


def test_a_repository_without_weights_that_are_read(hub):
    write_repository(hub.folder)
    (hub.folder / "model.safetensors").rename(hub.folder / "tf_model.h5")
    with pytest.raises(InputError, match=r"has no model.safetensors .*, but .*tf_model\.h5"):
        albert_tf.from_preset(f"albert/albert-base-v2@{COMMIT}")


def shapes_of(size: str) -> dict[str, tuple[int, ...]]:
    hidden = AlbertConfig.preset(size).hidden_size
    block = "bert/encoder/transformer/group_0/inner_group_0"
    return {
        "bert/embeddings/word_embeddings": (30000, 128),
        "bert/embeddings/position_embeddings": (512, 128),
        "bert/embeddings/token_type_embeddings": (2, 128),
        "bert/encoder/embedding_hidden_mapping_in/kernel": (128, hidden),
        f"{block}/attention_1/self/query/kernel": (hidden, hidden),
        f"{block}/ffn_1/intermediate/dense/kernel": (hidden, 4 * hidden),
    }


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_a_module_without_a_config_is_a_preset_by_its_shapes(size, tmp_path):
    def found(changes: dict[str, tuple[int, ...]]) -> AlbertConfig | None:
        shapes = {**shapes_of(size), **changes}
        tensors = {name: Tensor(name, shape, shape, np.empty) for name, shape in shapes.items()}
        return find_preset(str(tmp_path), Weights("module", "saved_model", tensors))

    assert found({}) == AlbertConfig.preset(size)
    for version, handle in ((1, "google/albert_base/1"), (2, "google/albert_base/2")):
        source = {"name": f"https://tfhub.dev/{handle}", "address": "a", "revision": "b"}
        (tmp_path / "albert_tf_source.json").write_text(json.dumps(source))
        assert found({}) == AlbertConfig.preset(size, version)
    assert found({"bert/embeddings/position_embeddings": (256, 128)}) is None
    assert found({"bert/encoder/transformer/group_1/x": (1,)}) is None


def test_a_repeated_command_takes_the_same_commit(hub, tmp_path):
    """All runs of a comparison start from the same weights, whatever was published meanwhile."""
    write_repository(hub.folder)
    options = ClassificationOptions(
        output_dir=str(tmp_path / "out"), init_checkpoint="albert/albert-base-v2"
    )
    first = with_local_weights(options).init_checkpoint
    run = tmp_path / "out" / "seed-1"
    run.mkdir(parents=True)
    for name, content in origin_file(first).items():
        (run / name).write_text(content)
    hub.commit = "b" * 40
    assert with_local_weights(options).init_checkpoint == first
    elsewhere = dataclasses.replace(options, output_dir=str(tmp_path / "elsewhere"))
    assert with_local_weights(elsewhere).init_checkpoint.endswith("b" * 40)


WEIGHTS = os.urandom(22_000_000)  # the library writes 10 MB at a time


@pytest.fixture
def model_hub(hub: Hub) -> Hub:
    """Return a Hub with a model."""
    (hub.folder / "config.json").write_text("{}")
    (hub.folder / "model.safetensors").write_bytes(WEIGHTS)
    (hub.folder / "pytorch_model.bin").write_bytes(b"a pickle")
    hub.repository = "models/org/name"
    return hub


def fetch(name: str = "org/name") -> pathlib.Path:
    patterns, repository = ["*.json", "*.safetensors"], parse_name(name)
    assert repository
    return pathlib.Path(download(name, repository, patterns, argument="init_checkpoint"))


def test_files_are_fetched_once_and_are_there_offline(model_hub, monkeypatch, capsys):
    folder = fetch()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not (folder / "pytorch_model.bin").exists()
    assert commit_of(str(folder)) == COMMIT
    assert f"org/name: commit {COMMIT}" in capsys.readouterr().out
    served = model_hub.served
    assert fetch(f"org/name@{COMMIT}") == folder
    assert fetch("org/name@refs/pr/1") == folder
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch() == folder
    assert model_hub.served == served


def test_a_local_folder_wins(model_hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert local_weights("org/name", argument="path") == "org/name"
    assert capsys.readouterr().out == "", "training folders have such names, too"
    (tmp_path / "org" / "name" / "config.json").write_text("{}")
    assert local_weights("org/name", argument="path") == "org/name"
    assert "org/name: the local path, not the published weights" in capsys.readouterr().out
    assert model_hub.requests == 0


@pytest.mark.parametrize(
    ("name", "refusal", "message"),
    [
        ("org/other", None, "no local file or folder, and no model of this name"),
        ("org/name@v9", None, "has no revision 'v9'"),
        ("org/name", (403, "GatedRepo"), "access must be asked for at http"),
        ("org/name", (500, "Internal"), "cannot be fetched from http"),
    ],
)
def test_a_refusal_is_one_line(model_hub, name, refusal, message):
    model_hub.refusal = refusal
    assert message in error_of(fetch, name)


@pytest.mark.parametrize(
    "load",
    [albert_tf.from_preset, albert_tf.Tokenizer.load, albert_tf.TextClassifier.from_preset],
)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert-base-uncased", "no such file or folder; on the Hub it is google-bert/bert-base-unc"),
        ("albert-xxlarge-v2", "no such file or folder; on the Hub it is albert/albert-xxlarge-v2"),
        ("nowhere", "no such file or folder$"),
        (None, "must be a path or a name"),
        (3, "must be a path or a name"),
    ],
)
def test_names_that_name_nothing(load, name, message):
    with pytest.raises(InputError, match=rf"^`(name|path)`={name}: {message}"):
        load(name)


def test_offline_without_a_cache_names_the_way_around(model_hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = error_of(fetch, "org/name")
    assert "HF_HUB_OFFLINE is set" in message
    assert "hf download org/name --local-dir=FOLDER" in message
    assert model_hub.requests == 0


@pytest.mark.integration
def test_a_broken_connection_is_resumed(model_hub):
    model_hub.pause_after = 21_000_000

    def break_off() -> None:
        model_hub.paused.wait()
        model_hub.pause_after = 0

    threading.Thread(target=break_off, daemon=True).start()
    assert (fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert model_hub.served < 1.6 * len(WEIGHTS)


@pytest.mark.integration
def test_a_killed_download_leaves_nothing_under_the_final_name(model_hub, tmp_path):
    program = (
        "from albert_tf.hub.huggingface import HubName, download; "
        "download('', HubName('org/name', None), ['*.safetensors'], argument='path')"
    )
    cache = tmp_path / "cache"
    environment = os.environ | {
        "HF_ENDPOINT": model_hub.endpoint,
        "HF_HUB_CACHE": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    model_hub.pause_after = 21_000_000
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    assert model_hub.paused.wait(60)
    process.kill()
    process.wait()
    model_hub.pause_after = 0
    assert not list(cache.glob("**/snapshots/*/*"))
    assert (fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_names():
    assert parse_name("albert/albert-base-v2") == ("albert/albert-base-v2", None)
    assert parse_name("a/b@refs/pr/3") == ("a/b", "refs/pr/3")
    for name in ("a", "a/b/c", "../b", "./b", "a/.b", "/a/b", "a/b@", "a/b\n"):
        assert parse_name(name) is None
