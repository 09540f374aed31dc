"""The Python of README.md, docs/keras.md and docs/text-models.md runs as it is written.

Every public name has a docstring, an example that runs, and an entry in the API reference.
"""

import doctest
import inspect
import logging
import re
from unittest import mock

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.training.pretraining_tasks import PRETRAINING_TASKS
from tests.conftest import ROOT
from tests.support import models
from tests.support.kinds_of_tasks import write_weights


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("hub") / "published")
    models.write_published(folder)
    return folder


@pytest.mark.integration
def test_the_snippet_of_the_readme_runs_as_it_stands(published):
    (snippet,) = (each for each in blocks("README.md") if models.PUBLISHED in each)
    names: dict = {}
    exec(snippet.replace(models.PUBLISHED, published), names)
    assert list(names["classifier"].labels) == sorted({*names["labels"]})


@pytest.mark.slow
def test_every_public_name_has_an_example_that_runs(published, capsys, caplog):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    known = {"albert_tf": albert_tf, "keras": keras, "np": np}
    parser, without = doctest.DocTestParser(), []
    caplog.set_level(logging.WARNING, "albert_tf")  # notes are no results of an example
    with mock.patch.dict(PRETRAINING_TASKS):
        for name in albert_tf.__all__:
            text = inspect.getdoc(getattr(albert_tf, name)) or ""
            _, _, example = text.partition("\nExample:\n")
            text = text.replace(models.PUBLISHED, published)
            test = parser.get_doctest(text, dict(known), name, None, 0)
            if not example or not test.examples:
                without.append(name)
            runner.run(test)
    assert not runner.summarize(verbose=False).failed, capsys.readouterr().out
    assert not without, f"no section `Example:` with lines of >>>: {', '.join(without)}"


def test_the_api_reference_has_every_public_name():
    page = (ROOT / "docs/reference/api.md").read_text("utf-8")
    listed = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", page, re.MULTILINE)
    attention = ["attention_weights", "backend_attention", "dot_product_attention", "mask_scores"]
    assert sorted(set(listed) - set(attention)) == sorted(set(albert_tf.__all__) - set(attention))


@pytest.mark.slow
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


@pytest.mark.slow
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
