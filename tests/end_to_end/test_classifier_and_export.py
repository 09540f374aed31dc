"""run_classifier.py and export_saved_model.py on a pretrained model, as a user would call them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.task import ClassificationTask
from tests.end_to_end.conftest import call, flags_of, results_of, run

pytestmark = pytest.mark.integration

WORDS = {"animal": ["cat", "dog", "bird", "horse"], "tool": ["saw", "drill", "file", "lathe"]}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write rows that a classifier can tell apart by their words."""
    folder = tmp_path_factory.mktemp("table")
    draw = random.Random(0)
    rows = []
    for _ in range(160):
        label = draw.choice(list(WORDS))
        rows.append((" ".join(draw.choices(WORDS[label], k=6)), label))
    for name, part in (("train", rows[:120]), ("eval", rows[120:])):
        lines = ["body\tkind", *(f"{text}\t{label}" for text, label in part)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    unlabeled = ["body", *(text for text, _ in rows[120:])]
    (folder / "predict.tsv").write_text("\n".join(unlabeled) + "\n")
    return folder


@pytest.fixture
def options(project, table, tmp_path):
    return ClassificationOptions(
        albert_config_file=str(project.config),
        spm_model_file=str(project.model),
        output_dir=str(tmp_path / "out"),
        train_file=str(table / "train.tsv"),
        eval_file=str(table / "eval.tsv"),
        predict_file=str(table / "predict.tsv"),
        text_column="body",
        label_column="kind",
        max_seq_length=24,
        train_batch_size=16,
        train_step=240,
        warmup_step=20,
        learning_rate=0.001,
        do_train=True,
        do_eval=True,
        do_predict=True,
    )


def test_it_learns_evaluates_and_predicts(options, pretrained, tmp_path):
    options = dataclasses.replace(options, init_checkpoint=str(pretrained))
    printed = call("run_classifier.py", *flags_of(options))
    folder = tmp_path / "out"
    results = results_of(folder)
    assert results["eval_accuracy"] > 0.9
    assert results["global_step"] == 240
    assert {"eval_loss", "eval_macro_f1"} <= set(results)
    assert "eval_accuracy = " in printed
    assert "of 27 variables loaded; left at initial values: classifier/output_weights" in printed
    assert json.loads((folder / "labels.json").read_text()) == ["animal", "tool"]

    probabilities = np.loadtxt(folder / "test_results.tsv")
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    guessed, truth = (
        [line.split("\t")[1] for line in pathlib.Path(path).read_text().splitlines()[1:]]
        for path in (folder / "predictions.tsv", options.eval_file)
    )
    right = np.mean([guess == label for guess, label in zip(guessed, truth, strict=True)])
    assert right == pytest.approx(results["eval_accuracy"])

    # The trained folder alone is enough to predict again, and gives the same.
    again = dataclasses.replace(options, do_train=False, do_eval=False, train_file=None)
    fine_tune(again, ClassificationTask)
    np.testing.assert_array_equal(np.loadtxt(folder / "test_results.tsv"), probabilities)


def _write(path, text):
    path.write_text(text)
    return str(path)


def test_bad_input_is_named(options, pretrained, project, tmp_path):
    def message(**changes) -> str:
        with pytest.raises(InputError) as error:
            fine_tune(dataclasses.replace(options, **changes), ClassificationTask)
        assert "\n" not in str(error.value)
        return str(error.value)

    def table(text):
        return _write(tmp_path / "rows.tsv", text)

    assert "nowhere.tsv: no such file" in message(train_file="nowhere.tsv")
    assert "`train_file`" in message(train_file=None)
    assert "a table must end in .tsv" in message(train_file=_write(tmp_path / "rows.docx", ""))
    assert "every row has the label 'x'" in message(train_file=table("body\tkind\na\tx\nb\tx\n"))
    assert "nothing to do" in message(do_train=False, do_eval=False, do_predict=False)
    assert "contains no trained model; without `do_train`, name" in message(do_train=False)
    assert "nowhere.model: no such file" in message(spm_model_file="nowhere.model")
    other = json.loads(project.config.read_text())
    other = _write(tmp_path / "other.json", json.dumps({**other, "vocab_size": 700}))
    assert "has 600 ids, but vocab_size of the model's config is 700" in message(
        albert_config_file=other
    )
    assert not (tmp_path / "out").exists(), "nothing is left of what never began"


@pytest.mark.slow
def test_exports_are_checked_in_another_process(project, pretrained, tmp_path, monkeypatch):
    export = f"{tmp_path}/export"
    flags = (f"--init_checkpoint={pretrained}", f"--spm_model_file={project.model}")
    output = call("export_saved_model.py", *flags, f"--export_path={export}", "--nopreprocess")
    assert "export/encoder: signatures mlm, serving_default, sop, tokens" in output
    words = ("-m", "albert_tf.export", "CHECK", export)
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # that exports need TensorFlow, the command knows
    output, _ = run(*words, flags[0], "--seq_lengths=16")
    assert "signatures: serving_default, tokens, mlm, sop" in output
    assert "mlm/mlm_logits: differs from the model by at most" in output
    assert "batch  8, length  16: " in output
    assets = {path.name for path in pathlib.Path(export, "encoder", "assets").iterdir()}
    vocabulary = {"vocabulary.model", "vocabulary.vocab", "tokenizer_config.json"}
    assert assets == {"albert_config.json", *vocabulary}
