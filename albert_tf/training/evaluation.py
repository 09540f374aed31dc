"""Evaluation during training, and the checkpoint with the best results."""

import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence

from albert_tf import files
from albert_tf.config import CONFIG_FILE
from albert_tf.engines.base import Engine
from albert_tf.engines.workers import Workers
from albert_tf.interop.adjacent_files import results_text
from albert_tf.interop.file_names import BEST_FOLDER, DATA_FILE, EVALUATION_DATA_FILE, RESULTS_FILE
from albert_tf.logs import counted
from albert_tf.training.log import EventWriter
from albert_tf.training.options import TrainingOptions
from albert_tf.training.rows import Row, finite, read_rows, rounded

_logger = logging.getLogger(__name__)

EVALUATIONS_FILE = "evaluations.jsonl"
CHECKPOINTS_FILE = "checkpoint_evaluations.jsonl"
_LOWER_IS_BETTER = frozenset({"loss", "mse"})


@dataclasses.dataclass(frozen=True)
class BestRecord:
    """The metric of the best checkpoint, its value, and the step of the checkpoint.

    Since a run may resume with another metric or on other examples: what identifies the examples
    ("" if unknown), and all finite results.
    """

    metric: str
    value: float
    step: int
    examples: str = ""
    results: dict[str, float] = dataclasses.field(default_factory=dict)


def is_better(metric: str, value: float, than: float | None) -> bool:
    """Return whether a value of a metric is better than another; None is worse than any value.

    Higher is better, except for losses and the mean squared error: metrics with `loss` or `mse`
    among the words of their names. A value that is not finite is never better.
    """
    if than is None or not math.isfinite(value):
        return math.isfinite(value)
    lower = not _LOWER_IS_BETTER.isdisjoint(metric.lower().split("_"))
    return value < than if lower else value > than


def best_of(metric: str, rows: Sequence[Mapping[str, float]]) -> int | None:
    """Return the index of the row with the best value, the first of equals; None if all are NaN."""
    best = None
    for number, row in enumerate(rows):
        if is_better(metric, row[metric], None if best is None else rows[best][metric]):
            best = number
    return best


@dataclasses.dataclass(eq=False)
class BestCheckpoint:
    """Keeps the checkpoint with the best value of a metric, in a folder `best` of its own.

    The list of checkpoints there is replaced last, in one step, so a kill leaves a complete one. A
    `.json` file next to the checkpoint has metric, value and step.

    Attributes:
        engine: that saves the checkpoints.
        folder: of training.
        metric: see `is_better`.
        adjacent: names of files in `folder` that go with the checkpoint.
        examples: identifies the evaluated examples, and after a slash how many; "" if unknown.
    """

    engine: Engine
    folder: str
    metric: str
    adjacent: tuple[str, ...] = (CONFIG_FILE, DATA_FILE, EVALUATION_DATA_FILE)
    examples: str = ""

    def __post_init__(self):
        self._best = f"{self.folder}/{BEST_FOLDER}"
        self._checkpoints = self.engine.checkpoints_in(self._best)

    def recorded(self) -> BestRecord | None:
        """Return the best checkpoint, by whatever metric; None if there is none."""
        path = self._listed()
        if path is None or not files.exists(f"{path}.json"):
            return None
        return files.read_json(f"{path}.json", BestRecord)

    def current(self) -> BestRecord | None:
        """Return the best so far; None if there is none, or one by another metric."""
        best = self.recorded()
        return best if best and best.metric == self.metric else None

    def resume(self, step: int) -> None:
        """Begin again at a step on other examples; by another metric, compare the best so far."""
        best = self.recorded()
        if best is None:
            return
        both = zip(best.examples.split("/"), self.examples.split("/"), strict=False)
        is_other = any("" not in pair and len(set(pair)) > 1 for pair in both)
        file, folder = f"{self._listed()}.json", self.folder
        if is_other or (best.metric != self.metric and self.metric not in best.results):
            on = "other examples" if is_other else f"{best.metric}, not {self.metric}"
            advice = f"chosen on {on}; the next evaluation replaces it"
            _logger.warning("%s: the checkpoint of step %d was %s", self._best, best.step, advice)
        elif best.metric != self.metric:
            best = dataclasses.replace(best, metric=self.metric, value=best.results[self.metric])
            files.write_text(file, files.to_json(dataclasses.asdict(best)) + "\n")
            _logger.info("the best so far: step %d, %s %.4f", best.step, best.metric, best.value)
        if is_other:
            if files.exists(f"{folder}/{EVALUATIONS_FILE}"):  # on which early stopping decides
                kept = f"{folder}/evaluations_before_step_{step}.jsonl"
                files.rename(f"{folder}/{EVALUATIONS_FILE}", kept)
            files.remove(file)

    def is_better(self, value: float) -> bool:
        """Return whether `value` is better than that of the best checkpoint so far."""
        best = self.current()
        return is_better(self.metric, value, best.value if best else None)

    def keep(
        self, path: str, value: float, step: int, results: Mapping[str, float] | None = None
    ) -> None:
        """Replace the best checkpoint by a complete one of a step, with this value of the metric.

        `results` of its evaluation go into `best/eval_results.txt`.
        """
        files.make_folder(self._best, "output_dir")
        copied = self._checkpoints.copy(path)
        for name in self.adjacent:
            if files.exists(f"{self.folder}/{name}"):
                files.copy_file(f"{self.folder}/{name}", f"{self._best}/{name}")
        if results is not None:
            text = results_text({**results, "global_step": step})
            files.write_text(f"{self._best}/{RESULTS_FILE}", text)
        best = BestRecord(self.metric, value, step, self.examples, finite(results or {}))
        files.write_text(f"{copied}.json", files.to_json(dataclasses.asdict(best)) + "\n")
        self._checkpoints.keep_only(copied)

    def remove_others(self) -> None:
        """Remove what a run has left that was killed after it had listed a new best."""
        if (path := self._listed()) is not None:
            self._checkpoints.keep_only(path)

    def _listed(self) -> str | None:
        return self._checkpoints.listed() if files.exists(self._best) else None


@dataclasses.dataclass(eq=False)
class PeriodicEvaluation:
    """Evaluates the model every few steps of training, and records the results.

    They are written to `evaluations.jsonl` (a JSON object per evaluation, with its `step`) and,
    for TensorBoard, to `eval/`.

    Attributes:
        workers: the processes that train together; the chief writes.
        evaluate: returns the metrics of the current model.
        every_steps: steps between two evaluations.
        folder: of training.
        best: keeps the best checkpoint; None to keep none.
        early_stopping: number of evaluations without a better value of the metric of `best` after
            which training stops; 0 never stops it.
        options: of the program, recorded for TensorBoard; None to record none.
        recorded: called by the chief, with the step, after it has recorded the results.
    """

    workers: Workers
    evaluate: Callable[[], dict[str, float]]
    every_steps: int
    folder: str
    best: BestCheckpoint | None = None
    early_stopping: int = 0
    options: TrainingOptions | None = None
    recorded: Callable[[int], None] = lambda step: None

    def is_due(self, step: int) -> bool:
        """Return whether the model is evaluated after `step`."""
        return step > 0 and step % self.every_steps == 0

    def run(self, step: int) -> dict[str, float]:
        """Evaluate and record the results; drop those of later steps, before a restart."""
        results = rounded(self.evaluate())
        with self.workers.synchronized():
            if self.workers.is_chief:
                self._write(step, results)
        return results

    def _write(self, step: int, results: dict[str, float]) -> None:
        earlier = [row for row in self._rows() if row["step"] < step]
        rows = [*earlier, {"step": step, **results}]
        with contextlib.closing(EventWriter(f"{self.folder}/eval", step)) as events:
            if self.options is not None and not earlier:
                events.add_command(step, self.options)
            events.add_scalars(step, results)
        files.write_text(self._path, "".join(f"{files.to_json(finite(row))}\n" for row in rows))
        self.recorded(step)

    def resume(self, step: int) -> None:
        """Continue from a step with the best so far (see `BestCheckpoint.resume`)."""
        with self.workers.synchronized():
            if self.best is not None and self.workers.is_chief:
                self.best.resume(step)

    def catch_up(self, step: int, checkpoint: str | None) -> None:
        """Make up for the evaluation of a run that was stopped at `step`, after it was saved."""
        if checkpoint is None or not self.is_due(step):
            return
        done = self.workers.from_chief(lambda: [row for row in self._rows() if row["step"] == step])
        if done and self.best is not None and self.best.metric not in done[0]:
            done = []  # evaluated on examples of another objective
        results = done[0] if done else self.run(step)
        is_best = self.is_best(results)
        with self.workers.synchronized():
            if is_best:
                self.keep_best(checkpoint, results, step)
            elif self.best is not None and self.workers.is_chief:
                self.best.remove_others()

    def is_best(self, results: dict[str, float]) -> bool:
        """Return whether a checkpoint with these results is the best so far."""
        best = self.best
        if best is None:
            return False
        return self.workers.from_chief(lambda: best.is_better(results[best.metric]))

    def keep_best(self, checkpoint: str, results: dict[str, float], step: int) -> None:
        """Keep a complete checkpoint as the best; only the chief does so."""
        if self.best is not None and self.workers.is_chief:
            self.best.keep(checkpoint, results[self.best.metric], step, results)

    def stop_reason(self, step: int) -> str | None:
        """Return why training stops at `step`, by the results so far; None if it continues."""
        if not self.early_stopping or self.best is None:
            return None
        metric = self.best.metric
        rows = self.workers.from_chief(self._rows)
        rows = [{metric: math.nan, **row} for row in rows if row["step"] <= step]
        number = best_of(metric, rows)
        since = len(rows) - (0 if number is None else number + 1)
        if since < self.early_stopping:
            return None
        best = None if number is None else rows[number]
        than = f"than {best[metric]:.4f} after step {best['step']}" if best else "than none"
        tries = counted(since, "evaluation")
        return f"stopping after step {step}: no better {metric} {than} in {tries}"

    @property
    def _path(self) -> str:
        return f"{self.folder}/{EVALUATIONS_FILE}"

    def _rows(self) -> list[Row]:
        return read_rows(self._path) if files.exists(self._path) else []


def write_checkpoint_evaluations(folder: str, evaluations: Mapping[int, dict[str, float]]) -> None:
    """Write step -> results of checkpoints to `checkpoint_evaluations.jsonl`.

    Its lines are like those of `evaluations.jsonl`, which is of training, maybe on other examples.
    """
    rows = ({"step": step, **rounded(finite(each))} for step, each in evaluations.items())
    files.write_text(
        f"{folder}/{CHECKPOINTS_FILE}", "".join(f"{files.to_json(row)}\n" for row in rows)
    )


def describe(step: int, results: dict[str, float]) -> str:
    """Return one line about an evaluation."""
    values = "  ".join(
        f"{name} {value:.4f}" for name, value in results.items() if not name.endswith("_weight")
    )
    return f"evaluation after step {step}:  {values}"
