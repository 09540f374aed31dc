"""The three commands as users run them."""

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
    names = ("pretraining_data", "train_vocabulary", "corpora", "extraction")
    modules = [f"data_prep.{name}" for name in (*names, "inspect.examples")]
    modules += [f"albert_tf.{name}" for name in ("tokenizers", "input.masking")]
    modules.append("albert_tf.interop.huggingface_tokenizer")
    code = (
        f"import sys, {', '.join(modules)};"
        "sys.exit(bool({'tensorflow', 'keras', 'torch', 'transformers'} & set(sys.modules)))"
    )
    assert run("-c", code).returncode == 0
