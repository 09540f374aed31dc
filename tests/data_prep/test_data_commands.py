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
