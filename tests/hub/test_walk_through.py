"""The commands that people copy from walk-throughs of the original, as they are typed."""

from __future__ import annotations

import json
import shlex

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.sources import find_config, with_hub_module
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tokenizers import Tokenizer
from tests.end_to_end.conftest import call
from tests.hub.test_layouts import VOCABULARY, config_for
from tests.support import layouts
from tests.support.glue_files import write_task
from tests.support.models import random_model
from tests.support.servers import serving

# From the original's notebook, with its variables filled in.
COMMAND = """
run_classifier.py \
  --data_dir="glue_data/" \
  --output_dir=OUTPUT \
  --albert_hub_module_handle=https://tfhub.dev/google/albert_base/1 \
  --spm_model_file="from_tf_hub" \
  --do_train=True \
  --do_eval=True \
  --do_predict=False \
  --max_seq_length=512 \
  --optimizer=adamw \
  --task_name=MRPC \
  --warmup_step=200 \
  --learning_rate=2e-5 \
  --train_step=800 \
  --save_checkpoints_steps=100 \
  --train_batch_size=32
"""
# So that it ends soon; later flags win.
SHORT = ("--train_step=2", "--warmup_step=1", "--train_batch_size=4")


def serve(tmp_path, monkeypatch, config: AlbertConfig, with_config: bool):
    """Write the task's data, and return a server of an imitation of the module."""
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_task(tmp_path / "glue_data", "MRPC")
    values = {w.path: w.numpy() for w in random_model("pretraining", config).weights}
    module = tmp_path / "module"
    layouts.module_of_tensorflow_1(module, config, values, VOCABULARY, with_config)
    address = "tfhub.dev/google/albert_base/1?tf-hub-format=compressed"
    return serving({address: layouts.packed(module)})


def vocab_size() -> int:
    return Tokenizer.load(str(VOCABULARY)).vocab_size


@pytest.mark.slow
def test_the_command_on_a_small_module(tmp_path, monkeypatch):
    config = AlbertConfig(
        **{
            **config_for(vocab_size()).to_dict(),
            "max_position_embeddings": 512,
            "num_hidden_layers": 1,
        }
    )
    with serve(tmp_path, monkeypatch, config, with_config=True) as server:
        monkeypatch.setenv("ALBERT_TF_MIRROR", server.address)
        printed = call(*shlex.split(COMMAND), *SHORT)
    assert "eval_accuracy = " in printed
    folder = tmp_path / "OUTPUT"
    assert (folder / "30k-clean.model").read_bytes() == VOCABULARY.read_bytes()
    source = json.loads((folder / "initial_weights.json").read_text())
    assert source["name"] == "https://tfhub.dev/google/albert_base/1"
    assert source["revision"].startswith("SHA-256 ")
    assert source["name"] in (folder / "report.html").read_text()


@pytest.mark.slow
def test_a_module_of_base_without_a_config(tmp_path, monkeypatch, capsys):
    config = AlbertConfig.preset("base", 1, vocab_size=vocab_size())
    with serve(tmp_path, monkeypatch, config, with_config=False) as server:
        monkeypatch.setenv("ALBERT_TF_MIRROR", server.address)
        handle = "https://tfhub.dev/google/albert_base/1"
        options = with_hub_module(
            ClassificationOptions(output_dir="OUTPUT", albert_hub_module_handle=handle)
        )
    assert find_config(options) == config
    printed = capsys.readouterr().out
    assert "has no albert_config.json; by its shapes it is base, version 1" in printed
