"""Evaluation in the course of training, and the best checkpoint."""

import dataclasses
import errno
import json
import math
import os
import types
from unittest.mock import Mock

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune_checked
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training import pretraining, run
from albert_tf.training.evaluation import (
    BestCheckpoint,
    PeriodicEvaluation,
    write_checkpoint_evaluations,
)
from albert_tf.training.loop import evaluate
from albert_tf.training.options import PretrainingOptions

ENGINE = TensorFlowEngine(TensorFlowDevices())


@pytest.fixture
def checkpoint(tmp_path):
    """Write a checkpoint of a step, as training does, and return its path."""
    (tmp_path / "albert_config.json").write_text("{}")

    def write(step: int) -> str:
        path = str(tmp_path / f"model.ckpt-{step}")
        tf.train.Checkpoint(step=tf.Variable(step)).write(path)
        return path

    return write


def kept(folder) -> tuple[int, float]:
    """Return the step in the best checkpoint and its value, and check that it is alone."""
    path = tf.train.latest_checkpoint(str(folder / "best"))
    assert TensorFlowFolder(str(folder)).damage_of(path) is None
    step = int(tf.train.load_variable(path, "step/.ATTRIBUTES/VARIABLE_VALUE"))
    best = json.loads((folder / "best" / f"model.ckpt-{step}.json").read_text())
    assert best["step"] == step
    names = {file.name for file in (folder / "best").iterdir()}
    names -= {"checkpoint", "eval_results.txt"}
    endings = ("data-00000-of-00001", "index", "json")
    assert names == {"albert_config.json"} | {f"model.ckpt-{step}.{e}" for e in endings}
    return step, best["value"]


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("masked_lm_accuracy", 3),
        ("masked_lm_loss", 2),
        ("loss", 2),
        ("eval_loss_mismatched", 2),
        ("MSE", 2),
    ],
)
def test_the_best_by_a_metric_is_kept(tmp_path, checkpoint, metric, best):
    keeper = BestCheckpoint(ENGINE, str(tmp_path), metric)
    values = {1: 0.5, 2: 0.25, 3: 0.75, 4: 0.5, 5: float("nan")}
    for step, value in values.items():
        if keeper.is_better(value):
            keeper.keep(checkpoint(step), value, step, {metric: value})
    assert kept(tmp_path) == (best, values[best])
    results = (tmp_path / "best" / "eval_results.txt").read_text()
    assert results == "".join(sorted([f"{metric} = {values[best]:g}\n", f"global_step = {best}\n"]))
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    assert kept(tmp_path) == (best, values[best]), "it needs nothing of the folder around it"
    assert not BestCheckpoint(ENGINE, str(tmp_path), metric).is_better(values[best])
    assert BestCheckpoint(ENGINE, str(tmp_path), "sentence_order_accuracy").is_better(0.0)


def test_evaluations_are_remembered_and_made_up_for(tmp_path, checkpoint, monkeypatch):
    values = iter([3.0, 2.0, 1.5, 1.0, 0.5])
    done = []

    def evaluate():
        done.append(next(values))
        return {"loss": done[-1]}

    def again():
        best = BestCheckpoint(ENGINE, str(tmp_path), "loss")
        return PeriodicEvaluation(ENGINE.workers, evaluate, 5, str(tmp_path), best)

    def rows():
        lines = (tmp_path / "evaluations.jsonl").read_text().splitlines()
        return [tuple(json.loads(line).values()) for line in lines]

    evaluation = again()
    assert [step for step in range(12) if evaluation.is_due(step)] == [5, 10]
    evaluation.catch_up(0, None)
    for step in (5, 10):
        evaluation.run(step)
    assert rows() == [(5, 3.0), (10, 2.0)]
    # Killed before the best was kept: no need to evaluate again.
    again().catch_up(10, checkpoint(10))
    assert kept(tmp_path) == (10, 2.0)
    assert len(done) == 2
    # Stopped before it was evaluated.
    again().catch_up(15, checkpoint(15))
    assert kept(tmp_path) == (15, 1.5)
    # Killed after the best was listed, before the one that it replaces was removed.
    with monkeypatch.context() as patch:
        patch.setattr("albert_tf.checkpoints.folder.remove", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            again().keep_best(checkpoint(20), {"loss": 1.25}, 20)
    (tmp_path / "evaluations.jsonl").write_text('{"step": 20, "loss": 1.25}\n')
    again().catch_up(20, checkpoint(20))
    assert kept(tmp_path) == (20, 1.25)
    # A checkpoint between two evaluations.
    again().catch_up(17, checkpoint(17))
    assert len(done) == 3
    # Gone back to an older one: what came later is forgotten.
    again().run(10)
    assert rows() == [(10, 1.0)]
    # Evaluated on examples of another objective.
    (tmp_path / "evaluations.jsonl").write_text('{"step": 25, "order_loss": 0.1}\n')
    again().catch_up(25, checkpoint(25))
    assert kept(tmp_path) == (25, 0.5)


@pytest.mark.parametrize(
    ("metric", "examples", "results", "said", "value", "is_kept"),
    [
        ("loss", "a", {}, "", 0.5, True),
        ("loss", "", {}, "", 0.5, True),
        ("loss", "b/8", {}, "was chosen on other examples; the next", None, False),
        ("loss", "a/9", {}, "was chosen on other examples; the next", None, False),
        ("accuracy", "a", {"accuracy": 0.75}, "the best so far: step 5, accuracy 0.75", 0.75, True),
        ("accuracy", "a", {}, "was chosen on loss, not accuracy; the next", None, True),
    ],
    ids=["same", "unknown", "other examples", "more of them", "other metric", "unknown metric"],
)
def test_a_run_resumes_with_another_metric_or_other_examples(
    tmp_path, checkpoint, caplog, metric, examples, results, said, value, is_kept
):
    caplog.set_level("INFO")
    keeper = BestCheckpoint(ENGINE, str(tmp_path), "loss", examples="a/8")
    keeper.keep(checkpoint(5), 0.5, 5, {"loss": 0.5, "nan": float("nan"), **results})
    rows = tmp_path / "evaluations.jsonl"
    rows.write_text('{"step": 5, "loss": 0.5}\n')
    best = BestCheckpoint(ENGINE, str(tmp_path), metric, examples=examples)
    evaluation = PeriodicEvaluation(ENGINE.workers, dict, 5, str(tmp_path), best)
    caplog.clear()
    evaluation.resume(7)
    assert said in caplog.text if said else not caplog.text
    assert (best.current() and best.current().value) == value
    assert rows.exists() == is_kept, "early stopping begins again as well"
    assert (tmp_path / "evaluations_before_step_7.jsonl").exists() != is_kept
    worse = {"loss": 0.75, "accuracy": 0.25}[metric]
    assert best.is_better(worse) == (value is None)
    caplog.clear()
    evaluation.resume(7)
    assert not caplog.text or metric == "accuracy" and not results


def strictly(text: str) -> list[dict]:
    """Read JSON lines as other programs do, to which NaN is no number."""
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_what_is_not_finite_is_left_out(tmp_path):
    path = tmp_path / "evaluations.jsonl"
    path.write_text('{"step": 1, "loss": NaN, "accuracy": 0.5}\n')  # of an earlier version
    results = {"loss": float("inf"), "accuracy": 0.25}
    PeriodicEvaluation(ENGINE.workers, lambda: results, 1, str(tmp_path)).run(2)
    write_checkpoint_evaluations(str(tmp_path), {2: results})
    rows = [{"step": 1, "accuracy": 0.5}, {"step": 2, "accuracy": 0.25}]
    assert strictly(path.read_text()) == rows
    assert strictly((tmp_path / "checkpoint_evaluations.jsonl").read_text()) == rows[1:]
    # TensorBoard forgets the later steps as well, after going back.
    for step in (3, 2):
        PeriodicEvaluation(ENGINE.workers, lambda: results, 1, str(tmp_path)).run(step)
    events = EventAccumulator(str(tmp_path / "eval")).Reload()
    assert [event.step for event in events.Tensors("quality/accuracy")] == [2]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_model_that_has_diverged_predicts_nothing(loss):
    batches = [(0.5, 1.0), (loss, 1.0)]
    engine = types.SimpleNamespace(iterate=lambda stream: batches, workers=ENGINE.workers)
    stream = types.SimpleNamespace(batches=lambda part: batches)

    def step(batch):
        return {"order_loss": batch[0], "order_accuracy": batch[1]}, {"order": 1.0}, {}

    results, _ = evaluate(engine, step, stream, max_steps=2)
    assert math.isnan(results["order_accuracy"])
    assert results["order_weight"] == 2
    assert evaluate(engine, step, stream, max_steps=1)[0]["order_accuracy"] == 1


@pytest.mark.parametrize(
    ("metric", "values", "stops"),
    [
        ("accuracy", [0.5, 0.6, 0.6, 0.5], 4),
        ("accuracy", [0.5, 0.5, 0.6, 0.7, 0.1], None),
        ("loss", [3.0, 2.0, 2.5, 2.0, 1.0], 4),
        ("loss", [3.0, float("nan"), float("nan")], 3),
        ("loss", [float("nan"), float("nan")], 2),
    ],
)
def test_training_ends_after_evaluations_without_a_better_one(tmp_path, metric, values, stops):
    left = iter(values)

    def again(early_stopping=2):
        # Created again before each step, as after a restart.
        best = BestCheckpoint(ENGINE, str(tmp_path), metric)
        return PeriodicEvaluation(
            ENGINE.workers, lambda: {metric: next(left)}, 1, str(tmp_path), best, early_stopping
        )

    reasons = {}
    for step in range(1, len(values) + 1):
        again().run(step)
        reasons[step] = again().stop_reason(step)
        assert again(0).stop_reason(step) is None
    first = next((step for step, reason in reasons.items() if reason), None)
    assert first == stops
    if stops:
        assert f"stopping after step {stops}: no better {metric} than" in reasons[stops]
        # Evaluations after the step from which training resumes do not count.
        assert again().stop_reason(stops - 1) is None


def test_results_are_printed_where_they_cannot_be_written(tmp_path, monkeypatch, caplog):
    def refuse(path, *_):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr("builtins.open", refuse)
    engine = types.SimpleNamespace(workers=Workers())
    for number in (errno.EROFS, errno.EACCES):
        caplog.clear()
        with caplog.at_level("INFO"):
            run.write_results(engine, "out", {"loss": 0.5})
            with pretraining._harmless("a report"):
                refuse("out/filled.json")
        assert caplog.messages == [
            "loss = 0.5",
            f"not written: out/eval_results.txt: {os.strerror(number)}",
            f"not written: out/filled.json: {os.strerror(number)}",
        ]
    number = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        run.write_results(engine, "out", {"loss": 0.5})
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    predicts = ClassificationOptions(output_dir=str(tmp_path), do_predict=True, predict_file="-")
    for options in (PretrainingOptions(output_dir=str(tmp_path), do_eval=True), predicts):
        with run.training_folder(options, engine):
            pass
    options = dataclasses.replace(predicts, predict_file="x.tsv")
    with pytest.raises(InputError, match="`output_dir`"), run.training_folder(options, engine):
        pass
    (tmp_path / "checkpoint").touch()
    with pytest.raises(InputError, match="`output_dir`: no permission"):
        fine_tune_checked(options, None)  # before it reads anything
