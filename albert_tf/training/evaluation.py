"""Evaluation in the course of training, and the checkpoint that did best in it."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.config import CONFIG_FILE
from albert_tf.engines.tensorflow import workers
from albert_tf.files import (
    copy_file,
    exists,
    make_folder,
    matches,
    read_lines,
    read_text,
    remove,
    write_text,
)
from albert_tf.interop.companions import DATA_FILE
from albert_tf.interop.tensorflow_checkpoints import list_as_newest

EVALUATIONS_FILE = "evaluations.jsonl"
CHECKPOINTS_FILE = "checkpoint_evaluations.jsonl"
BEST_FOLDER = "best"


class Best(NamedTuple):
    """What the kept checkpoint was best in."""

    metric: str
    value: float
    step: int


def is_better(metric: str, value: float, than: float | None) -> bool:
    """Whether a value of a metric is better than another; nothing is worse than None.

    The higher the better, but for metrics called `loss` or `..._loss`. What is not finite is never
    better.
    """
    if than is None or not math.isfinite(value):
        return math.isfinite(value)
    return value < than if metric.split("_")[-1] == "loss" else value > than


class BestCheckpoint:
    """Keeps the checkpoint with the best value of a metric, in a folder `best` beside the others.

    The file `checkpoint` there is replaced last, in one step, and names the checkpoint, whose
    `.json` tells metric, value and step. So whatever is killed, the folder holds a whole one.

    Args:
        folder: of training.
        metric: the higher the better, but for those called `loss` or `..._loss`.
        beside: names of files in `folder` that go with the checkpoint.
    """

    def __init__(self, folder: str, metric: str, beside: Sequence[str] = (CONFIG_FILE, DATA_FILE)):
        self._training_folder = folder
        self._beside = tuple(beside)
        self._folder = f"{folder}/{BEST_FOLDER}"
        self.metric = metric

    def current(self) -> Best | None:
        """What is kept; None where there is none, or one of another metric."""
        path = tf.train.latest_checkpoint(self._folder) if exists(self._folder) else None
        if path is None or not exists(f"{path}.json"):
            return None
        best = Best(**json.loads(read_text(f"{path}.json")))
        return best if best.metric == self.metric else None

    def is_better(self, value: float) -> bool:
        """Whether `value` is better than that of the checkpoint that is kept."""
        best = self.current()
        return is_better(self.metric, value, best.value if best else None)

    def keep(self, path: str, value: float, step: int) -> None:
        """Puts a checkpoint in the place of the one that is kept.

        Args:
            path: of the checkpoint, complete.
            value: of the metric.
            step: of the checkpoint.
        """
        make_folder(self._folder, "output_dir")
        name = os.path.basename(path)
        if tf.train.latest_checkpoint(self._folder) == f"{self._folder}/{name}":
            # Of another run, maybe; a mixture of both must not stay listed.
            remove(f"{self._folder}/checkpoint")
        for source in matches(f"{path}.*"):
            copy_file(source, f"{self._folder}/{os.path.basename(source)}")
        for beside in self._beside:
            if exists(f"{self._training_folder}/{beside}"):
                copy_file(f"{self._training_folder}/{beside}", f"{self._folder}/{beside}")
        best = Best(self.metric, value, step)
        write_text(f"{self._folder}/{name}.json", json.dumps(best._asdict()) + "\n")
        list_as_newest(f"{self._folder}/{name}")
        for other in matches(f"{self._folder}/model.ckpt-*"):
            if not os.path.basename(other).startswith(f"{name}."):
                remove(other)


class PeriodicEvaluation:
    """Evaluates every so many steps of training, and remembers the values.

    They go to `evaluations.jsonl` (a JSON object per evaluation, with its `step`) and, for
    TensorBoard, to `eval/`.

    Args:
        evaluate: gives the metrics of the model as it is.
        every_steps: steps between two evaluations.
        folder: of training.
        best: keeps the best checkpoint; None to keep none.
        early_stopping: evaluations without a better value of the metric of `best` after which
            training ends; 0: it goes on.
    """

    def __init__(
        self,
        evaluate: Callable[[], dict[str, float]],
        every_steps: int,
        folder: str,
        best: BestCheckpoint | None = None,
        early_stopping: int = 0,
    ):
        self.every_steps = every_steps
        self._evaluate = evaluate
        self._folder = folder
        self._best = best
        self._early_stopping = early_stopping

    def is_due(self, step: int) -> bool:
        """Whether the model is evaluated after `step`."""
        return step > 0 and step % self.every_steps == 0

    def run(self, step: int) -> dict[str, float]:
        """Evaluates and remembers the values; those of later steps, before a restart, go."""
        results = rounded(self._evaluate())
        with workers.everyone():
            if workers.is_chief():
                self._write(step, results)
        return results

    def _write(self, step: int, results: dict[str, float]) -> None:
        kept = [line for line in self._lines() if json.loads(line)["step"] < step]
        lines = [*kept, json.dumps({"step": step, **results})]
        events = tf.summary.create_file_writer(f"{self._folder}/eval")
        with contextlib.closing(events), events.as_default(step=step):
            for name, value in results.items():
                tf.summary.scalar(name, value)
        write_text(self._path, "".join(f"{line}\n" for line in lines))

    def catch_up(self, step: int, checkpoint: str | None) -> None:
        """Does what a run that was stopped at `step` should still have done.

        Args:
            step: that training goes on from.
            checkpoint: of that step.
        """
        if checkpoint is None or not self.is_due(step):
            return
        done = workers.from_chief(
            lambda: [row for row in map(json.loads, self._lines()) if row["step"] == step]
        )
        if done and self._best is not None and self._best.metric not in done[0]:
            done = []  # of examples whose pairs were of another kind
        results = done[0] if done else self.run(step)
        if self.is_best(results):
            with workers.everyone():
                self.keep_best(checkpoint, results, step)

    def is_best(self, results: dict[str, float]) -> bool:
        """Whether a checkpoint with these values is to be kept as the best."""
        best = self._best
        if best is None:
            return False
        return workers.from_chief(lambda: best.is_better(results[best.metric]))

    def keep_best(self, checkpoint: str, results: dict[str, float], step: int) -> None:
        """Keeps a complete checkpoint as the best; the chief alone does so."""
        if workers.is_chief():
            self._best.keep(checkpoint, results[self._best.metric], step)

    def reason_to_stop(self, step: int) -> str | None:
        """Why training ends at `step`, by the values up to there; None if it goes on."""
        if not self._early_stopping or self._best is None:
            return None
        metric = self._best.metric
        rows = workers.from_chief(lambda: list(map(json.loads, self._lines())))
        rows = [row for row in rows if row["step"] <= step]
        best: dict[str, float] | None = None
        since = 0
        for row in rows:
            value = row.get(metric, math.nan)
            better = is_better(metric, value, best[metric] if best else None)
            best, since = (row, 0) if better else (best, since + 1)
        if since < self._early_stopping:
            return None
        than = f"than {best[metric]:.4f} after step {best['step']}" if best else "than nothing"
        return f"stopping after step {step}: no better {metric} {than} in {since} evaluations"

    @property
    def _path(self) -> str:
        return f"{self._folder}/{EVALUATIONS_FILE}"

    def _lines(self) -> list[str]:
        return list(read_lines(self._path)) if exists(self._path) else []


class CheckpointEvaluations:
    """Remembers what the checkpoints of a folder did, in `checkpoint_evaluations.jsonl` there.

    Its lines are like those of `evaluations.jsonl`, which belongs to training and may be of other
    examples. Those of an earlier evaluation are replaced as soon as there is one of this.

    Args:
        folder: of training.
    """

    def __init__(self, folder: str):
        self._path = f"{folder}/{CHECKPOINTS_FILE}"
        self._lines: list[str] = []

    def add(self, step: int, results: dict[str, float]) -> None:
        """Writes and prints the metrics of a checkpoint; the chief alone does so."""
        if not workers.is_chief():
            return
        self._lines.append(json.dumps({"step": step, **rounded(results)}) + "\n")
        write_text(self._path, "".join(self._lines))
        print(describe(step, results), flush=True)


def rounded(results: dict[str, float]) -> dict[str, float]:
    """Metrics with the seven digits that a float32 has."""
    return {name: float(f"{value:.7g}") for name, value in results.items()}


def describe(step: int, results: dict[str, float]) -> str:
    """One line on an evaluation."""
    values = "  ".join(
        f"{name} {value:.4f}" for name, value in results.items() if not name.endswith("_weight")
    )
    return f"evaluation after step {step}:  {values}"
