"""The Python of docs/keras.md and docs/text-models.md runs as it is written."""

import re

import pytest

from tests.conftest import ROOT
from tests.support.kinds_of_tasks import write_weights

pytestmark = pytest.mark.slow


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
def op_by_op():
    """Without graphs, whose tracing takes most of the time of such small models."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
def test_models_in_keras(tmp_path, monkeypatch, capsys):
    found = blocks("docs/keras.md")
    assert len(found) == 9
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in found:
        exec(compile(block, "docs/keras.md", "exec"), names)
    assert capsys.readouterr().out.startswith("`features`: unknown key 'mask'; valid keys are")
    assert set(names["outputs"]) >= {"logits", "hidden_states", "attentions", "encoder_outputs"}
    assert len(names["outputs"]["hidden_states"]) == len(names["outputs"]["attentions"]) + 1
    assert (tmp_path / "classifier.keras").exists()
    assert names["again"].optimizer.learning_rate_scales == names["scales"]
    trained = {weight.path for weight in names["again"].trainable_weights}
    assert trained == {weight.path for weight in names["model"].trainable_weights}
    assert not [path for path in trained if path.startswith("bert/embeddings/")]


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
def test_text_models(tmp_path, monkeypatch):
    """With tiny weights in place of published ones."""
    code = "\n".join(blocks("docs/text-models.md") + blocks("docs/sentences.md"))
    code = code.replace(
        '"albert/albert-base-v2"', f'"{write_weights(tmp_path)}", max_seq_length=16'
    )
    for name, length in (("QuestionAnswerer", "max_query"), ("MultipleChoice", "max_qa")):
        call = f"{name}.from_preset("
        code = code.replace(call, f"{call}{length}_length=8, name=")
    monkeypatch.chdir(tmp_path)
    variables: dict = {}
    exec(compile(code, "docs/text-models.md", "exec"), variables)
    answer = variables["answers"][0]
    assert variables["context"][answer.start : answer.end] == answer.text
    assert variables["classifier"].labels == ["negative", "positive"]
