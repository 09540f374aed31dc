"""The blocks of docs/keras.md run as they are written."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT


@pytest.fixture
def op_by_op():
    """Without graphs, whose tracing takes most of the time of such small models."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.slow
@pytest.mark.usefixtures("op_by_op")
@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
def test_the_blocks_run(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/keras.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 9
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(compile(block, "docs/keras.md", "exec"), names)
    assert capsys.readouterr().out.startswith("`features`: unknown key 'mask'; valid keys are")
    assert set(names["outputs"]) >= {"logits", "hidden_states", "attentions", "encoder_outputs"}
    assert len(names["outputs"]["hidden_states"]) == len(names["outputs"]["attentions"]) + 1
    assert (tmp_path / "classifier.keras").exists()
    assert names["again"].optimizer.learning_rate_scales == names["scales"]
    trained = {weight.path for weight in names["again"].trainable_weights}
    assert trained == {weight.path for weight in names["model"].trainable_weights}
    assert not [path for path in trained if path.startswith("bert/embeddings/")]
