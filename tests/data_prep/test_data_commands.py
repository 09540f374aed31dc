"""The three commands as users run them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, **options
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    "command", ["extract_corpus", "train_vocabulary", "create_pretraining_data"]
)
def test_help_needs_no_heavy_imports(command):
    code = (
        f"import sys, data_prep.{command};"
        "sys.exit(bool({'tensorflow', 'keras', 'numba', 'sentencepiece'} & set(sys.modules)))"
    )
    assert run("-c", code).returncode == 0
    assert "--input_file" in run(f"data_prep/{command}.py", "--help").stdout


def test_no_module_loads_tensorflow():
    names = ("pretraining_data", "local_runner", "train_vocabulary", "corpora", "extraction")
    modules = [f"data_prep.{name}" for name in (*names, "inspect.show")]
    modules += [f"albert_tf.{name}" for name in ("tokenizers", "input.masking")]
    modules.append("albert_tf.interop.huggingface_tokenizer")
    code = (
        f"import sys, {', '.join(modules)};"
        "sys.exit(bool({'tensorflow', 'keras', 'torch', 'transformers'} & set(sys.modules)))"
    )
    assert run("-c", code).returncode == 0


@pytest.mark.integration
def test_from_text_to_records(corpus, tmp_path):
    text, prefix = tmp_path / "text.txt", tmp_path / "small"
    steps = [
        [
            "data_prep.extract_corpus",
            "--format=text",
            f"--input_file={corpus}",
            f"--output_file={text}",
        ],
        [
            "data_prep.train_vocabulary",
            f"--input_file={text}",
            f"--output_prefix={prefix}",
            "--vocab_size=400",
        ],
        [
            "data_prep.create_pretraining_data",
            f"--input_file={text}",
            f"--output_file={tmp_path}/a.tfrecord,{tmp_path}/b.tfrecord",
            f"--spm_model_file={prefix}.model",
            f"--vocab_file={prefix}.vocab",
            "--max_seq_length=32",
            "--dupe_factor=1",
        ],
    ]
    for step in steps:
        done = run("-m", *step)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert done.stdout
    manifest = json.loads((tmp_path / "a.manifest.json").read_text())
    summary = json.loads((tmp_path / "text.corpus.json").read_text())
    assert manifest["corpora"] == {"text.txt": summary}
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "text.txt", "text.sources.tsv", "text.corpus.json", "small.model", "small.vocab",
        "tokenizer_config.json",
        "a.tfrecord", "b.tfrecord", "a.index.json", "a.manifest.json",
    }  # fmt: skip
