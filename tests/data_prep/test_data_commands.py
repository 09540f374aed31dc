"""What the commands and the modules of data preparation load."""

import re

import pytest

from tests.conftest import run_python

FRAMEWORKS = {"tensorflow", "keras", "torch", "transformers"}


@pytest.mark.integration
@pytest.mark.parametrize(
    "command", ["extract_corpus", "train_vocabulary", "create_pretraining_data"]
)
def test_help_needs_no_heavy_imports(command):
    done = run_python("-X", "importtime", f"data_prep/{command}.py", "--help")
    assert "--input_file" in done.stdout
    loaded = set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE))
    assert "data_prep" in loaded
    assert not (FRAMEWORKS | {"numba", "sentencepiece"}) & loaded


def test_no_module_loads_a_framework():
    code = (
        "import albert_tf.input.masking, albert_tf.interop.huggingface_tokenizer, sys;"
        "import data_prep.corpora, data_prep.extraction, data_prep.inspect.examples;"
        "import data_prep.pretraining_data, data_prep.train_vocabulary, albert_tf.tokenizers;"
        f"loaded = {FRAMEWORKS} & set(sys.modules); assert not loaded, loaded"
    )
    assert run_python("-c", code).stderr == ""
