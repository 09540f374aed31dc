"""Cross-validation, and ensembles: every row is predicted once, or by the mean of all models."""

import contextlib
import dataclasses
import itertools
import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from albert_tf.errors import InputError
from albert_tf.finetuning import runs
from albert_tf.finetuning.command import check_early, fine_tune, member_options
from albert_tf.finetuning.single_run import Scored
from albert_tf.finetuning.task import mean_log_odds, mean_log_probabilities
from albert_tf.report.intervals import wilson
from albert_tf.tasks.classification.datasets import ClassificationDataset
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import fold_rows, hold_out
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.question_answering.spans import mean_of_spans
from tests.conftest import random_inputs
from tests.end_to_end.conftest import results_of
from tests.support.finetuning import NO_TRAINING, labeled, options_of, write_files
from tests.support.html import read_page


@random_inputs(30)
@given(st.lists(st.sampled_from("abc"), min_size=12), st.integers(2, 5), st.integers(0, 3))
def test_every_label_is_in_every_fold(labels, folds, seed):
    dataset = ClassificationDataset("table", {}, folds=folds, held_out_seed=seed)
    counts = {label: labels.count(label) for label in set(labels)}
    if min(counts.values()) < folds:
        with pytest.raises(InputError, match=rf"^`folds`={folds}: must be at most \d+, the number"):
            fold_rows(dataset, labeled(*labels))
        return
    found = fold_rows(dataset, labeled(*labels))
    assert sorted(np.concatenate([held_out for _, held_out in found])) == [*range(len(labels))]
    for train, held_out in found:
        assert sorted([*train, *held_out]) == [*range(len(labels))]
        for label, count in counts.items():
            share = sum(labels[row] == label for row in held_out)
            assert count // folds <= share <= -(-count // folds)


def test_the_likeliest_label_decides_which_rows_are_held_out():
    uncertain = {"x": 0.2, "y": 0.8}, {"x": 0.6, "y": 0.4}
    examples = labeled("x", *uncertain, "y", None, "x", "y", None)
    train, held_out = hold_out(ClassificationDataset("table", {}, held_out=0.5), examples)
    assert {each.likeliest_label for each in held_out} == {"x", "y"}
    assert [each for each in examples if each in train or each in held_out] == examples
    assert len(train) == 5
    with pytest.raises(InputError, match=r"`folds`=2: rows.tsv:6 has no label to score"):
        fold_rows(ClassificationDataset("table", {}, folds=2), examples)
    for _, rows in fold_rows(ClassificationDataset("table", {}, folds=3), examples[:4] * 2):
        assert len(rows) in (2, 3)


@pytest.mark.parametrize(("target", "label"), [("multi_label", ["x", "y"]), ("regression", "1.5")])
def test_rows_of_several_labels_or_numbers_are_held_out_as_they_come(target, label):
    examples = labeled(*[label] * 9)
    dataset = ClassificationDataset("table", {}, target=target, held_out=0.3, folds=3)
    assert [len(part) for part in hold_out(dataset, examples)] == [6, 3]
    assert [len(rows) for _, rows in fold_rows(dataset, examples)] == [3, 3, 3]
    with pytest.raises(InputError, match="^`folds`=3: must be at most 2, the number of rows$"):
        fold_rows(dataset, examples[:2])


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
    members = {"ensemble": (f"{out}/fold-*",), "max_seq_length": None}
    both = options_of(tmp_path, tmp_path / "both", **NO_TRAINING, **members)
    fine_tune(both, ClassificationTask)
    assert results_of(tmp_path / "both")["ensemble_models"] == 2


POSITION, STARTS, ENDS = 3, 3, 2  # the first token of the context; what a model proposes


@random_inputs(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 1000.0]))
def test_probabilities_are_averaged(seed, scale):
    random = np.random.default_rng(seed)
    logits = [(scale * random.normal(size=(4, 3))).astype(np.float32) for _ in range(3)]
    wide = [each.astype(np.float64) for each in logits]
    found = softmax(mean_log_probabilities(logits), axis=-1)
    np.testing.assert_allclose(found, np.mean([softmax(w, -1) for w in wide], 0), atol=1e-12)
    found = expit(mean_log_odds(logits))
    np.testing.assert_allclose(found, np.mean([expit(w) for w in wide], 0), atol=1e-12)


def proposals(random: np.random.Generator, windows: int) -> dict[str, np.ndarray]:
    """Return what a conditional head computes: distinct starts, distinct ends of each."""
    length = POSITION + 6

    def indexes(count: int) -> np.ndarray:
        # Without [CLS], the span that pads rows with fewer spans.
        return 1 + np.array([random.permutation(length - 1)[:count] for _ in range(windows)])

    def scores(count: int) -> np.ndarray:
        return np.log(random.dirichlet(np.ones(count + 1), windows)[:, :count])

    return {
        "start_top_index": indexes(STARTS),
        "start_top_log_probs": scores(STARTS),
        "end_top_index": np.concatenate([indexes(ENDS) for _ in range(STARTS)], axis=1),
        "end_top_log_probs": np.concatenate([scores(ENDS) for _ in range(STARTS)], axis=1),
        "cls_logits": random.normal(size=windows),
    }


def spans_of(outputs: dict[str, np.ndarray], row: int) -> dict[tuple[int, int], float]:
    """Return probability of every span that a window has."""
    values = {name: each[row] for name, each in outputs.items()}
    ends = len(values["end_top_index"]) // len(values["start_top_index"])
    return {
        (values["start_top_index"][n // ends], end): np.exp(
            values["start_top_log_probs"][n // ends] + values["end_top_log_probs"][n]
        )
        for n, end in enumerate(values["end_top_index"])
    }


@random_inputs(20)
@given(st.integers(0, 2**32 - 1))
def test_spans_have_the_mean_of_their_probabilities(seed):
    random = np.random.default_rng(seed)
    models = [proposals(random, 2) for _ in range(3)]
    averaged = mean_of_spans(models)
    expected = np.mean([each["cls_logits"] for each in models], axis=0)
    np.testing.assert_allclose(averaged["cls_logits"], expected)
    for row in range(2):
        singles = [spans_of(each, row) for each in models]
        found = spans_of(averaged, row)
        for span in {span for each in singles for span in each}:
            expected = sum(each.get(span, 0.0) for each in singles) / 3
            assert found.pop(span) == pytest.approx(expected, rel=1e-9)
        assert set(found) <= {(0, 0)}  # pads the shorter row


def test_globs_name_folders_with_models(tmp_path):
    for name in ("seed-1", "seed-2", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checkpoint").touch()
    (tmp_path / "grid.tsv").touch()
    options = ClassificationOptions(output_dir="both", do_eval=True, ensemble=(f"{tmp_path}/*",))
    folders = [each.output_dir for each in member_options(options)]
    assert folders == [f"{tmp_path}/seed-1", f"{tmp_path}/seed-2"]


FOLDS = {"folds": 3, "eval_file": None}
ENSEMBLE = {**NO_TRAINING, "ensemble": ("1", "2")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"early_stopping_evaluations": 2}, "`early_stopping_evaluations`=2: needs `eval_every_s"),
        ({"eval_checkpoints": "all", "do_eval": False}, "`eval_checkpoints`=all: needs `do_eval`"),
        ({"seeds": 3, "do_eval": False}, "`seeds`=3: needs `do_eval`"),
        ({"learning_rates": ("1e-5", "x")}, "`learning_rates`=1e-5,x: must be numbers"),
        ({"learning_rates": ("1", "1.0")}, "`learning_rates`=1,1.0: contains the same"),
        ({"train_batch_sizes": ("8", "0")}, "`train_batch_size`=0"),
        ({"predict_output": "x", "do_predict": True}, "`predict_output`=x: needs"),
        ({"albert_dropout": 1.0}, "`albert_dropout`=1.0: must be"),
        (FOLDS | {"folds": 1}, "`folds`=1: must be 2 to 1000"),
        (FOLDS | {"folds": 40}, "`folds`=40: must be at most 27, the number of"),
        (FOLDS | {"do_train": False}, "`folds`=3: needs `do_train`"),
        *(
            (FOLDS | {name: value}, f"`{name}`: cannot be combined with `folds`")
            for name, value in {
                **{"eval_file": "eval.tsv", "seeds": 2, "do_predict": True},
                **{"eval_every_steps": 5, "test_size": 0.5},
            }.items()
        ),
        (ENSEMBLE | {"ensemble": ("1", "[1]", "1/")}, "needs at least two models"),
        (ENSEMBLE | {"ensemble": ("1", "no")}, "`ensemble`=no: no folder with a trained model"),
        (ENSEMBLE | {"ensemble": ("no-*",)}, "no folder with a trained model matches"),
        (ENSEMBLE | {"do_train": True}, "`do_train`: cannot be combined with `ensemble`"),
        (ENSEMBLE | {"do_predict": True, "predict_file": "-"}, "an ensemble reads files only"),
        (ENSEMBLE | {"eval_checkpoints": "all"}, "which `ensemble` only reads"),
    ],
)
def test_flags_that_do_not_go_together_are_named(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checkpoint").touch()
    with pytest.raises(InputError, match=re.escape(message)):
        fine_tune(options_of(tmp_path, tmp_path / "out", **changes), ClassificationTask)
    assert not (tmp_path / "out").exists()


USES = {
    "a single model": ("checkpoint", {}),
    "several runs": ("seeds.json", {"seeds": 2}),
    "a cross-validation": ("folds.json", {"folds": 2, "eval_file": None}),
    "an ensemble": ("ensemble.tsv", {**NO_TRAINING, "ensemble": ("models/*",)}),
}


@pytest.mark.parametrize(("used", "asked"), [*itertools.product(USES, USES)])
def test_results_of_several_kinds_of_runs_are_not_mixed(tmp_path, monkeypatch, used, asked):
    monkeypatch.chdir(tmp_path)
    (file, _), (_, changes) = USES[used], USES[asked]
    write_files(tmp_path)
    for folder in ("out/best", "models/1", "models/2"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "checkpoint").touch()
        shutil.copy("config.json", f"{folder}/albert_config.json")
    (tmp_path / "out" / file).touch()
    expected = contextlib.nullcontext()
    if used != asked:
        message = f"^`output_dir`=.*: contains {used}, whose results those of {asked} would replace"
        expected = pytest.raises(InputError, match=message)
    with expected:
        check_early(options_of(tmp_path, tmp_path / "out", **changes))
