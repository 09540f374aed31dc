"""run_classifier.py and export_saved_model.py on a pretrained model, as a user would call them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random

import numpy as np
import pytest

from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.task import ClassificationTask
from tests.end_to_end.conftest import call, flags_of, results_of

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
