"""Fine-tuning as a whole: the best checkpoint, early stopping, several runs, streams."""

import dataclasses
import itertools
import json
import os
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning import single_run as single
from albert_tf.finetuning.command import fine_tune
from albert_tf.tasks.classification.task import ClassificationTask
from tests.conftest import once
from tests.end_to_end.conftest import results_of
from tests.support.finetuning import NO_TRAINING, options_of, write_files

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def files(shared_folder):
    folder = shared_folder / "files_of_runs"
    return once(folder, lambda: write_files(folder))


@pytest.fixture(scope="module")
def trained(files, shared_folder, tmp_path_factory):
    """Return the folder of a run that was evaluated every 10 of 30 steps."""
    made = shared_folder / "trained_runs"
    options = options_of(files, made, eval_every_steps=10, save_checkpoints_steps=15)
    once(made, lambda: fine_tune(options, ClassificationTask))
    return shutil.copytree(made, tmp_path_factory.mktemp("trained") / "out")  # tests write to it


def predicting(folder, files, **changes):
    """Return options that predict with what a folder holds, and nothing else."""
    settings = {**NO_TRAINING, "do_eval": False, "do_predict": True, **changes}
    return options_of(files, folder, **settings)


def evaluations(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]


def test_the_best_checkpoint_is_kept_and_used(trained, files, capsys):
    rows = evaluations(trained)
    assert [row["step"] for row in rows] == [10, 20, 30]
    best = max(rows, key=lambda row: row["eval_accuracy"])
    results = results_of(trained)
    assert results["global_step"] == best["step"]
    assert results["eval_accuracy"] == pytest.approx(best["eval_accuracy"], abs=1e-6)
    assert results["eval_loss"] == pytest.approx(best["eval_loss"], abs=1e-5)
    assert best["eval_accuracy"] > 0.9
    capsys.readouterr()
    fine_tune(predicting(trained, files), ClassificationTask)
    said = capsys.readouterr().out
    assert f"best checkpoint: step {best['step']}, eval_accuracy" in said
    assert (trained / "best" / "vocab.txt").exists()


def test_predictions_are_those_of_full_padding(trained, files, capsys):
    both = []
    for pad_to_max_length in (False, True):
        options = predicting(trained, files, pad_to_max_length=pad_to_max_length)
        fine_tune(options, ClassificationTask)
        both.append(np.loadtxt(trained / "test_results.tsv"))
    assert both[0].shape == (21, 2)
    assert np.ptp(both[0][:, 0]) > 0.1
    np.testing.assert_allclose(*both, rtol=0, atol=1e-5)
    # Texts have up to 30 words, and there is room for 22.
    lines = (files / "predict.tsv").read_text().splitlines()
    lost = [len(line.split()) - 23 for line in lines if len(line.split()) > 23]
    assert (
        f"predict: 21 examples; {len(lost)} ({len(lost) / 21:.1%}) truncated to 24 tokens "
        f"({sum(lost)} tokens dropped)"
    ) in capsys.readouterr().out


@pytest.mark.slow
def test_results_are_of_the_step_that_was_restored(trained, files, tmp_path, caplog):
    folder = shutil.copytree(trained, tmp_path / "out")
    damaged = folder / "model.ckpt-30.data-00000-of-00001"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    options = options_of(files, folder, train_step=15, eval_checkpoints="newest", clip_norm=0.5)
    fine_tune(options, ClassificationTask)
    assert results_of(folder)["global_step"] == 15
    assert "`clip_norm` was 1.0 and is 0.5" in caplog.text
    changes = {"eval_file": str(files / "predict.tsv"), "train_file": str(files / "eval.tsv")}
    fine_tune(dataclasses.replace(options, **changes, train_step=16), ClassificationTask)
    assert "was chosen on other examples; the next evaluation replaces it" not in caplog.text
    assert "the training data is another" in caplog.text
    changes["eval_every_steps"] = 2
    fine_tune(dataclasses.replace(options, **changes, train_step=18), ClassificationTask)
    assert "was chosen on other examples; the next evaluation replaces it" in caplog.text
    assert [row["step"] for row in evaluations(folder)] == [16, 18]


@pytest.mark.slow
def test_all_checkpoints_are_compared(trained, files, capsys):
    capsys.readouterr()
    options = options_of(files, trained, do_train=False, eval_checkpoints="all")
    fine_tune(options, ClassificationTask)
    said = capsys.readouterr().out
    rows = np.genfromtxt(trained / "eval_checkpoints.tsv", delimiter="\t", names=True)
    values = dict(zip(rows["step"], rows["eval_accuracy"], strict=True))
    known = {row["step"]: row["eval_accuracy"] for row in evaluations(trained)}
    assert set(values) >= {15, 30}
    for step in set(values) & set(known):
        assert values[step] == pytest.approx(known[step], abs=1e-6)
    chosen = results_of(trained)["global_step"]
    assert values[chosen] == max(values.values())
    for step in values:
        assert f"evaluation after step {step:g}:" in said


@pytest.mark.slow
def test_several_runs_are_compared_and_finished_ones_are_kept(files, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "out"
    same = {"train_step": 3, "pad_to_max_length": True}
    grid = {"seeds": 2, "learning_rates": ("0", "1e-2"), "do_predict": True}
    options = options_of(files, folder, **same, **grid)
    trainings = []
    train = single.train

    def counting(*arguments):
        trainings.append(arguments[4].output_dir.rsplit("/", 1)[1])
        if len(trainings) == 2:
            raise KeyboardInterrupt
        return train(*arguments)

    monkeypatch.setattr(single, "train", counting)
    with pytest.raises(KeyboardInterrupt):
        fine_tune(options, ClassificationTask)
    fine_tune(options, ClassificationTask)
    runs = itertools.product(("0", "0.01"), (12345, 12346))
    names = [f"learning_rate-{rate}_seed-{seed}" for rate, seed in runs]
    assert trainings == [names[0], names[1], *names[1:]]

    record = json.loads((folder / "seeds.json").read_text())
    values = {run["folder"]: run["eval_accuracy"] for run in record["runs"]}
    assert list(values) == names
    for name, value in values.items():
        assert results_of(folder / name)["eval_accuracy"] == pytest.approx(value, abs=1e-6)
    for number, setting in enumerate(record["settings"]):
        mine = np.array([values[name] for name in names[2 * number : 2 * number + 2]])
        assert setting["mean"] == pytest.approx(mine.mean())
        assert setting["median"] == pytest.approx(np.median(mine))
        assert setting["standard_deviation"] == pytest.approx(mine.std(ddof=1))
        assert setting["minimum"] == mine.min()
        assert setting["best"] == mine.max()
        assert values[setting["best_folder"]] == mine.max()
    assert values[record["best"]] == max(values.values())
    table = (folder / "grid.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in table] == ["folder", *names]

    # The folder itself is as that of the best run, for results, predictions and later use.
    assert results_of(folder) == results_of(folder / record["best"])
    predictions = (folder / "test_results.tsv").read_text()
    capsys.readouterr()
    fine_tune(predicting(folder, files), ClassificationTask)
    assert (folder / "test_results.tsv").read_text() == predictions
    record = folder / names[0] / "finished.json"
    before = json.loads(record.read_text())
    assert before["options"].pop("long_texts") == "head"
    record.write_text(json.dumps(before))  # of a version without the option
    trainings[:] = [""] * 10
    fine_tune(options, ClassificationTask)
    assert len(trainings) == 10, "nothing was trained again"

    # A run among several is the run by itself.
    alone = options_of(files, tmp_path / "alone", learning_rate=0.01, random_seed=12346, **same)
    fine_tune(alone, ClassificationTask)
    assert results_of(tmp_path / "alone") == results_of(folder / names[-1])


@pytest.mark.slow
def test_what_has_diverged_is_never_the_best(files, tmp_path, caplog):
    # Outputs that are NaN stand for the first class, which half of these rows have.
    rows = "".join(f"{word}\t{label}\n" for word, label in (("cat", "animal"), ("saw", "tool")) * 8)
    for name in ("train", "eval"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + rows)
    tables = {f"{name}_file": str(tmp_path / f"{name}.tsv") for name in ("train", "eval")}
    tables |= {"train_step": 4, "warmup_step": 1, "eval_every_steps": 2, "do_predict": True}
    options = options_of(files, tmp_path / "out", learning_rates=("1e9", "1e-9"), **tables)
    fine_tune(options, ClassificationTask)
    best = json.loads((tmp_path / "out" / "seeds.json").read_text())["best"]
    bad = tmp_path / "out" / "learning_rate-1e+09"
    assert best == "learning_rate-1e-09"
    assert np.isfinite(np.loadtxt(tmp_path / "out" / "test_results.tsv")).all()
    assert "this run has collapsed: its outputs are NaN" in caplog.text
    assert not list(bad.glob("best/model.ckpt-*"))
    assert np.isnan(results_of(bad)["eval_accuracy"])
    with pytest.raises(InputError, match=r"model.ckpt-4: its outputs are NaN; its training has"):
        fine_tune(predicting(bad, files), ClassificationTask)
    ensemble = (str(tmp_path / "out" / best), str(bad))
    both = predicting(tmp_path / "both", files, do_eval=True, ensemble=ensemble)
    with pytest.raises(InputError, match=r"^`ensemble`=.*rate-1e\+09: its outputs are NaN"):
        fine_tune(both, ClassificationTask)
    with pytest.raises(InputError, match="its outputs are NaN"):
        albert_tf.TextClassifier.from_preset(bad).predict(["cat"])


def test_without_a_best_checkpoint_nothing_is_evaluated(trained, files, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "out")
    shutil.rmtree(folder / "best")
    (folder / "eval_results.txt").unlink()
    options = options_of(files, folder, eval_checkpoints="best", do_train=False)
    with pytest.raises(InputError, match="`eval_checkpoints`=best"):
        fine_tune(options, ClassificationTask)
    assert not (folder / "eval_results.txt").exists()


@pytest.mark.slow
def test_an_ensemble_predicts_the_mean_of_its_models(trained, files, tmp_path, capsys):
    for name in ("new", "old", "other"):
        shutil.copytree(trained, tmp_path / name)
        if name != "new":
            shutil.rmtree(tmp_path / name / "best")
    listed = tmp_path / "old" / "checkpoint"
    listed.write_text(listed.read_text().replace("ckpt-30", "ckpt-15", 1))
    folders = [tmp_path / name for name in ("new", "old")]
    flags = {"do_eval": True, "pad_to_max_length": True}
    for folder in folders:
        fine_tune(predicting(folder, files, **flags), ClassificationTask)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()

    out = tmp_path / "both"
    options = predicting(out, files, **flags, ensemble=tuple(map(str, folders)))
    fine_tune(options, ClassificationTask)
    assert all(path.read_bytes() == content for path, content in before.items())
    singles = [np.loadtxt(folder / "test_results.tsv") for folder in folders]
    found = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(found, np.mean(singles, axis=0), atol=1e-6)
    assert np.abs(singles[0] - singles[1]).max() > 0.01
    labels = json.loads((out / "labels.json").read_text())
    lines = (out / "predictions.tsv").read_text().splitlines()[1:]
    predicted = [line.split("\t")[1] for line in lines]
    assert predicted == [labels[number] for number in found.argmax(axis=-1)]

    results, alone = results_of(out), [results_of(folder) for folder in folders]
    assert results["ensemble_models"] == 2
    for number, single_results in enumerate(alone, start=1):
        assert results[f"single_{number}_eval_accuracy"] == single_results["eval_accuracy"]
    accuracies = [each["eval_accuracy"] for each in alone]
    assert results["single_best_eval_accuracy"] == max(accuracies)
    assert results["single_mean_eval_accuracy"] == pytest.approx(np.mean(accuracies))
    head, *rows = [line.split("\t") for line in (out / "ensemble.tsv").read_text().splitlines()]
    column = head.index("eval_loss")
    assert [float(row[column]) for row in rows[:2]] == [each["eval_loss"] for each in alone]
    assert float(rows[2][column]) == results["eval_loss"]
    assert "by the ensemble of 2 models" in capsys.readouterr().out
    assert (out / "report.html").exists()

    (tmp_path / "other" / "labels.json").write_text('["tool", "animal"]')
    options = dataclasses.replace(
        options, ensemble=(str(tmp_path / "new"), str(tmp_path / "other")), output_dir="nowhere"
    )
    with pytest.raises(InputError, match="other: labels tool, animal, but animal, tool in .*new"):
        fine_tune(options, ClassificationTask)
    assert not os.path.exists("nowhere")
