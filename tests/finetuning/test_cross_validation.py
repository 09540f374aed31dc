"""Cross-validation: every row is predicted once, by a model that was trained without it."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.finetuning import runs
from albert_tf.finetuning.command import fine_tune
from albert_tf.finetuning.single_run import Scored
from albert_tf.report.intervals import wilson
from albert_tf.tasks.classification.datasets import ClassificationDataset, Example
from albert_tf.tasks.classification.tables import fold_rows
from albert_tf.tasks.classification.task import ClassificationTask
from tests.conftest import random_inputs
from tests.end_to_end.conftest import results_of
from tests.support.finetuning import options_of, write_files
from tests.support.html import read_page


def examples(labels) -> list[Example]:
    return [Example(f"rows.tsv:{n}", "x", None, label) for n, label in enumerate(labels, 2)]


@random_inputs(30)
@given(st.lists(st.sampled_from("abc"), min_size=12), st.integers(2, 5), st.integers(0, 3))
def test_every_label_is_in_every_fold(labels, folds, seed):
    dataset = ClassificationDataset("table", {}, folds=folds, held_out_seed=seed)
    counts = {label: labels.count(label) for label in set(labels)}
    if min(counts.values()) < folds:
        with pytest.raises(InputError, match=rf"^`folds`={folds}: must be at most \d+, the number"):
            fold_rows(dataset, examples(labels))
        return
    found = fold_rows(dataset, examples(labels))
    assert sorted(np.concatenate([held_out for _, held_out in found])) == [*range(len(labels))]
    for train, held_out in found:
        assert sorted([*train, *held_out]) == [*range(len(labels))]
        for label, count in counts.items():
            share = sum(labels[row] == label for row in held_out)
            assert count // folds <= share <= -(-count // folds)


def test_numbers_are_not_stratified():
    dataset = ClassificationDataset("table", {}, target="regression", folds=3)
    assert len(fold_rows(dataset, examples(["1", "2", "3"]))) == 3
    with pytest.raises(InputError, match="^`folds`=3: must be at most 2, the number of rows$"):
        fold_rows(dataset, examples(["1", "2"]))


class FakeRun:
    """A model that says "animal" of longer texts, and is not trained."""

    def __init__(self, options, context):
        self.options = options
        (train,), (rows,) = context.of_split("train"), context.of_split("eval")
        assert not {each.id for each in train.examples} & {each.id for each in rows.examples}
        logits = np.float32([[len(each.text.split()), 15] for each in rows.examples])
        results = context.task.score(rows, {"logits": logits})
        self.evaluation = Scored(results, None, [{"logits": logits}])

    def start(self):
        return self

    write_results = start


@pytest.mark.integration
def test_all_rows_are_scored_together(tmp_path, capsys, monkeypatch):
    write_files(tmp_path)
    out = tmp_path / "out"
    monkeypatch.setattr(runs, "FineTuningRun", FakeRun)
    options = options_of(tmp_path, out, folds=3, eval_file=None, class_weights="balanced")
    fine_tune(options, ClassificationTask)
    rows = [line.split("\t") for line in (tmp_path / "train.tsv").read_text().splitlines()[1:]]
    expected = ["animal" if len(text.split()) >= 15 else "tool" for text, _ in rows]
    predicted = [line.split("\t") for line in (out / "predictions.tsv").read_text().splitlines()]
    assert predicted == [
        ["id", "label"], *([str(number), label] for number, label in enumerate(expected))
    ]  # fmt: skip
    assert np.loadtxt(out / "test_results.tsv").shape == (len(rows), 2)
    assert json.loads((out / "labels.json").read_text()) == ["animal", "tool"]
    right = sum(guess == label for guess, (_, label) in zip(expected, rows, strict=True))
    results = results_of(out)
    assert results["eval_accuracy"] == pytest.approx(right / len(rows))
    assert results["folds"] == 3
    interval = wilson(right, len(rows))
    between = f"{100 * interval.low:.0f} to {100 * interval.high:.0f}% (Wilson)"
    assert f"of all {len(rows)} rows; 95% interval {between}" in capsys.readouterr().out
    table = [line.split("\t") for line in (out / "folds.tsv").read_text().splitlines()]
    assert [row[0] for row in table] == ["fold", "1", "2", "3"]
    assert sum(int(row[1]) for row in table[1:]) == len(rows)
    page = read_page((out / "report.html").read_text()).text
    assert "train.tsv, 3 folds" in page
    assert between in page
    assert "Every row was predicted by the model of its fold" in page

    fine_tune(options, ClassificationTask)
    for changes in ({"test_seed": 1}, {"max_seq_length": 20}):
        with pytest.raises(InputError, match="contains folds of other rows, or of other tokens"):
            fine_tune(dataclasses.replace(options, **changes), ClassificationTask)


@pytest.mark.slow
def test_a_fold_is_a_run_on_the_other_rows(tmp_path, monkeypatch):
    write_files(tmp_path)
    out = tmp_path / "out"
    rows = (tmp_path / "train.tsv").read_text().splitlines()[1:]
    options = options_of(
        tmp_path, out, folds=2, eval_file=None, train_step=20, pad_to_max_length=True,
        long_texts="windows",
    )  # fmt: skip
    trained = []
    train = runs.FineTuningRun.train

    def interrupted(run):
        trained.append(run.options.output_dir)
        if len(trained) == 2:
            raise KeyboardInterrupt
        train(run)

    monkeypatch.setattr(runs.FineTuningRun, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fine_tune(options, ClassificationTask)
    first = (out / "fold-1" / "metrics.jsonl").read_text()
    fine_tune(options, ClassificationTask)
    assert (out / "fold-1" / "metrics.jsonl").read_text() == first, "it was not trained again"

    task = ClassificationTask(options, None)
    kept, held_out = fold_rows(task.dataset, task.read("train")[""])[1]
    files = []
    for name, numbers in (("kept", kept), ("held_out", held_out)):
        files.append(str(tmp_path / f"{name}.tsv"))
        lines = ["text\tlabel", *(rows[number] for number in numbers)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    alone = dataclasses.replace(
        options, folds=None, output_dir=str(tmp_path / "alone"), do_predict=True,
        train_file=files[0], eval_file=files[1], predict_file=files[1],
    )  # fmt: skip
    fine_tune(alone, ClassificationTask)
    found = np.loadtxt(out / "test_results.tsv")[held_out]
    expected = np.loadtxt(tmp_path / "alone" / "test_results.tsv")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert results_of(tmp_path / "alone") == pytest.approx(results_of(out / "fold-2"), abs=1e-5)

    # The models are an ensemble for other rows.
    both = options_of(tmp_path, tmp_path / "both", do_train=False, ensemble=(f"{out}/fold-*",))
    changes = {"albert_config_file": None, "vocab_file": None, "train_file": None}
    fine_tune(dataclasses.replace(both, max_seq_length=None, **changes), ClassificationTask)
    assert results_of(tmp_path / "both")["ensemble_models"] == 2


def test_flags_that_exclude_folds_are_named(tmp_path):
    write_files(tmp_path)

    def message(**changes) -> str:
        changes = {"folds": 3, "eval_file": None, **changes}
        with pytest.raises(InputError) as error:
            fine_tune(options_of(tmp_path, tmp_path / "out", **changes), ClassificationTask)
        return str(error.value)

    assert message(folds=1).startswith("`folds`=1: must be 2 to 1000")
    assert message(folds=40).startswith("`folds`=40: must be at most 27, the number of")
    assert message(do_train=False) == "`folds`=3: needs `do_train`"
    for name, value in (("eval_file", f"{tmp_path}/eval.tsv"), ("seeds", 2), ("do_predict", True),
                        ("eval_every_steps", 5), ("test_size", 0.5)):  # fmt: skip
        assert message(**{name: value}).startswith(f"`{name}`: cannot be combined with `folds`")
    assert not (tmp_path / "out").exists()
