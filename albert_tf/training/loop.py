"""The loops of training, evaluation and prediction, for any engine, model, objective and data."""

import collections
import contextlib
import dataclasses
import itertools
import logging
import math
import time
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.engines.base import Engine
from albert_tf.engines.steps import EvaluationStep, PredictionStep, TrainingStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, Stopped
from albert_tf.flops import encoder_flops
from albert_tf.input.manifest import Rows
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import ENDLESS, WHOLE, BatchStream
from albert_tf.logs import counted
from albert_tf.modeling.losses import means
from albert_tf.terminal import ThroughputLine
from albert_tf.training.evaluation import PeriodicEvaluation, describe
from albert_tf.training.health import Health, Workload, memory, what_to_try
from albert_tf.training.log import TrainingLog
from albert_tf.training.options import TrainingOptions
from albert_tf.training.rows import lines_up_to, parse_row
from albert_tf.training.stages import Stage
from albert_tf.training.stopping import StopSignals

_logger = logging.getLogger(__name__)

# The metric that carries the time over a restart: the log is on the disk before a checkpoint is.
TRAINING_SECONDS = "training_seconds"

# What `predict` pads outputs with: below every logit, and twice of it is still a float32 number.
OUTPUT_PADDING = -1e30


def train(
    engine: Engine,
    training_step: TrainingStep,
    stream: BatchStream,
    checkpoints: Checkpoints,
    options: TrainingOptions,
    flops_per_example: float,
    evaluation: PeriodicEvaluation | None = None,
    rows: Rows | None = None,
) -> str:
    """Train from the current step up to `num_train_steps`, or until the training time is over.

    Several workers take the same steps and decisions, and all stop where one of them is asked to
    stop; only the chief writes.

    Args:
        engine: where the steps run.
        training_step: the model, its optimizer and its objective.
        stream: the global batches of an uninterrupted run.
        checkpoints: saves every `save_checkpoints_steps` steps and at the end.
        options: the folder of the logs, the numbers of steps, and the time limit.
        flops_per_example: operations of the model on an example of the full length, or on a row,
            forward and backward.
        evaluation: evaluates during training; None for no evaluation.
        rows: what rows have if batches consist of them; None for batches of examples.

    Returns:
        The path of the checkpoint of the weights that the model has then.

    Raises:
        InputError: If losses or gradients are no longer finite, or the data cannot be read.
        OSError: If a checkpoint cannot be written.
        Stopped: By SIGTERM, SIGHUP or Ctrl-C, after the current steps are done and saved.
    """
    workers, step, num_train_steps = engine.workers, training_step.step, options.num_train_steps
    whole_step, stop_reason = training_step, None
    if evaluation is not None:
        if step < num_train_steps:
            evaluation.resume(step)
        evaluation.catch_up(step, checkpoints.latest)
        stop_reason = evaluation.stop_reason(step)
    if step < num_train_steps and not stop_reason:
        time_limit = TimeLimit(workers, options, step)
        stop_reason = time_limit.stop_reason(step)
    if stop_reason:
        _logger.info("%s", stop_reason)
    if step >= num_train_steps or stop_reason:
        return checkpoints.latest or checkpoints.folder.find("output_dir")
    config = training_step.model.config
    full = encoder_flops(config, options.max_seq_length)
    workload = Workload(
        options.train_batch_size,
        lambda length: flops_per_example * encoder_flops(config, length) / full,
        engine.devices.peak_flops(options.peak_tflops),
        rows,
    )
    iterations_per_loop = options.iterations_per_loop or (1000 if engine.devices.is_tpu else 10)
    health = Health(training_step.objective, options.max_nonfinite_steps, what_to_try(options))
    recorded = [parse_row(line, "") for line in lines_up_to(options.output_dir, step)]
    checkpoints.resume(health.resume(recorded))
    log: TrainingLog | None = None  # of the chief
    with StopSignals() as signals, contextlib.ExitStack() as stack:
        with workers.synchronized():
            if workers.is_chief:
                log = TrainingLog(options.output_dir, num_train_steps, step, workload, options)
                stack.enter_context(contextlib.closing(log))
                checkpoints.before_listing = log.wait
        stack.enter_context(checkpoints)
        stage: Stage | None = None
        while step < num_train_steps:
            if stage is None or step == stage.end:
                stage = options.stage(step)
                training_step, batches = in_stage(engine, whole_step, stream, stage, step)
                time_limit.begin_stage()
                if log:
                    log.begin_stage(stage.batch_size)
            steps_to_save = options.save_checkpoints_steps - step % options.save_checkpoints_steps
            listed = (each - step for each in options.steps_to_save if each > step)
            steps_to_save = min(steps_to_save, next(listed, steps_to_save))
            last = min(num_train_steps, stage.end)
            count = min(iterations_per_loop, steps_to_save, last - step)
            if evaluation is not None:
                count = min(count, evaluation.every_steps - step % evaluation.every_steps)
            count = time_limit.steps(count)
            start = time.monotonic()
            results = training_step(batches, count)
            time_limit.add(count, time.monotonic() - start)
            step += count
            with workers.synchronized():
                metrics = health.metrics(results, step) | memory(engine.devices.memory_peak())
                metrics |= time_limit.metrics
                if log:
                    log.write(step, metrics, results.history["length"], time_limit.seconds_left)
                    if warning := health.warning(step, checkpoints.good):
                        _logger.warning("%s", warning)
                health.check(checkpoints.good)
                checkpoints.check()
            stop_signal = workers.agree(signals.received)
            evaluate_now = evaluation is not None and evaluation.is_due(step) and not stop_signal
            is_best = False
            stop_reason = time_limit.stop_reason(step) if step < num_train_steps else None
            if evaluate_now or stop_reason or step == num_train_steps:
                training_step.check_replicas()
            if evaluation is not None and evaluate_now:
                start = time.monotonic()
                evaluated = evaluation.run(step)
                if log:
                    log.note(describe(step, evaluated), time.monotonic() - start)
                is_best = evaluation.is_best(evaluated)
                stop_reason = evaluation.stop_reason(step) or stop_reason
                stop_signal = workers.agree(signals.received)
            stops = bool(stop_signal or stop_reason)
            if count == steps_to_save or step == num_train_steps or is_best or stops:
                with workers.synchronized():
                    if log:
                        log.sync()
                    checkpoints.save(health.is_good)
            if evaluation is not None and is_best:
                with workers.synchronized():
                    checkpoints.wait()
                    if checkpoints.latest is not None:
                        evaluation.keep_best(checkpoints.latest, evaluated, step)
            if log and stop_reason and not stop_signal:
                log.note(stop_reason, 0.0)
            if stops:
                break
        if log and not stop_signal and (warning := health.ending(checkpoints.good)):
            _logger.warning("%s", warning)
        if log and not stop_signal and (beyond := [s for s in options.steps_to_save if s > step]):
            message = "`save_steps`: not saved, as training ended at step %d: %s"
            _logger.warning(message, step, ", ".join(map(str, beyond)))
        with workers.synchronized():  # no worker ends before the chief has saved
            checkpoints.wait()
        stop_signal = workers.agree(signals.received)
    if stop_signal:
        raise Stopped(
            stop_signal,
            f"Stopped at step {step} of {num_train_steps} and saved {checkpoints.latest}. Rerun "
            "the same command to resume.",
        )
    return checkpoints.latest or checkpoints.folder.find("output_dir")


def in_stage(
    engine: Engine, whole: TrainingStep, stream: BatchStream, stage: Stage, step: int
) -> tuple[TrainingStep, Iterator]:
    """Return the training step of a stage, and its batches from a step on.

    It is compiled for these alone, and has the variables of that for `whole` batches.
    """
    if stage.parts > 1 and isinstance(stream, RecordStream):
        count = max(1, whole.options.micro_batches // stage.parts)
        options = dataclasses.replace(whole.options, micro_batches=count)
        whole = dataclasses.replace(whole, options=options)
        stream = dataclasses.replace(stream, parts=stage.parts)
    return whole, engine.iterate(stream, step + stage.offset)


class TimeLimit:
    """Counts the time that a run spends on training steps, and ends it after so many minutes.

    Waiting for data counts as part of a step. Start-up, evaluation and saving do not count, nor
    does the first step of each process or stage, in which the engine compiles. Nor does time spent
    on steps after `step`, from which training resumes. With `max_train_minutes`=0, nothing is
    counted.

    The clock of the chief decides. All workers know its times, and so take the same decisions.
    """

    def __init__(self, workers: Workers, options: TrainingOptions, step: int):
        self._workers = workers
        self._minutes = options.max_train_minutes
        # As a record of the log has it, so that a run that has ended is over after a restart.
        self._limit = float(f"{60 * self._minutes:.7g}") or math.inf
        self._before = 0.0
        if self._minutes:
            self._before = workers.from_chief(lambda: _recorded(options, step))
        self._seconds = 0.0  # of this process
        self._steps = 0
        self._compiled = False

    def begin_stage(self) -> None:
        """Expect the steps that follow to take another time than those so far."""
        self._before += self._seconds
        self._seconds, self._steps, self._compiled = 0.0, 0, False

    def steps(self, count: int) -> int:
        """Return how many of the next `count` steps are taken at once: those that probably fit.

        The first step, which compiles, and the second, which shows how long one takes, come alone.
        """
        if not self._minutes:
            return count
        if not self._steps:
            return 1
        if self.seconds_left * self._steps >= count * self._seconds:
            return count
        return max(1, math.ceil(self.seconds_left * self._steps / self._seconds))

    def add(self, count: int, seconds: float) -> None:
        """Count `count` steps that took so many seconds."""
        if not self._minutes:
            return
        if self._compiled:
            self._seconds += self._workers.from_chief(lambda: seconds)
            self._steps += count
        self._compiled = True

    @property
    def seconds_left(self) -> float:
        """Training time until the limit; infinite without one."""
        return self._limit - self._before - self._seconds

    @property
    def metrics(self) -> dict[str, float]:
        """`training_seconds`, the training time so far; nothing without a limit."""
        return {TRAINING_SECONDS: self._before + self._seconds} if self._minutes else {}

    def stop_reason(self, step: int) -> str | None:
        """Return why training stops at `step`; None if there is time left."""
        if self.seconds_left > 0:
            return None
        minutes = counted(f"{(self._before + self._seconds) / 60:.4g}", "minute")
        return (
            f"stopping after step {step}: trained for {minutes}, of which "
            f"{self._minutes:g} were allowed"
        )


def _recorded(options: TrainingOptions, step: int) -> float:
    """Return the training time up to a step: as recorded or, without a limit, by the rates.

    The first record of each process, in which it compiles, is then left out.
    """
    folder = options.output_dir
    seconds, last = 0.0, {"step": 0, "seconds": math.inf}
    for row in (parse_row(line, folder) for line in lines_up_to(folder, step)):
        rate = row.get("rows_per_second") or row.get("examples_per_second")
        if rate and row.get("seconds", 0) > last["seconds"]:
            batch_size = options.stage(int(last["step"])).batch_size
            seconds += (row["step"] - last["step"]) * batch_size / rate
        seconds, last = float(row.get(TRAINING_SECONDS, seconds)), {"seconds": math.inf, **row}
    return seconds


def evaluate(
    engine: Engine, evaluation_step: EvaluationStep, stream: BatchStream, max_steps: int = 0
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the means of the objective's quantities over a data set, and what else it shows.

    At most `max_steps` batches are evaluated; 0 for all.

    Returns:
        The mean of every quantity, and the total weight of each part as `PART_weight`; and the
        objective's `predictions` of the first batch. If a loss is not finite, all means
        are NaN: what a model that has diverged seems to predict is no prediction.

    Raises:
        InputError: If the data cannot be read, or there is none.
    """
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    shown: dict[str, np.ndarray] | None = None
    batches = itertools.islice(engine.iterate(stream), max_steps or None)
    count = min(len(stream.batches(WHOLE)), max_steps or ENDLESS)
    with ThroughputLine("evaluated", "batches", count) as progress:
        for number, batch in enumerate(batches, start=1):
            batch_sums, batch_weights, predictions = evaluation_step(batch)
            shown = predictions if shown is None else shown
            for totals, values in ((sums, batch_sums), (weights, batch_weights)):
                for name, value in values.items():
                    totals[name] = totals.get(name, 0.0) + value
            if engine.workers.is_chief:
                progress.update(number)
    if not weights:
        raise InputError("no example to evaluate on")
    totals = {f"{part}_weight": total for part, total in weights.items()}
    results = means(sums, weights)
    if not all(map(math.isfinite, sums.values())):
        results = dict.fromkeys(results, math.nan)
    return {**results, **totals}, shown or {}


def predict(
    engine: Engine,
    prediction_step: PredictionStep,
    stream: BatchStream,
    shows_progress: bool = False,
) -> dict[str, np.ndarray]:
    """Return what a model computes for all examples, in their order.

    Batches have `example_number`, -1 for padding. With `shows_progress`, the chief shows a line.

    Returns:
        The step's outputs by name, `[examples, ...]`. Where their other axes differ from batch to
        batch, they are padded with `OUTPUT_PADDING`.
    """
    iterator = engine.iterate(stream)
    numbers: list[np.ndarray] = []
    outputs: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    progress = ThroughputLine("computed", "batches", len(stream.batches(WHOLE)))
    with progress, contextlib.suppress(StopIteration):
        while True:
            batch_numbers, values = prediction_step(iterator)
            real = batch_numbers >= 0
            numbers.append(batch_numbers[real])
            for name, value in values.items():
                outputs[name].append(value[real])
            if shows_progress and engine.workers.is_chief:
                progress.update(len(numbers))
    order = np.argsort(np.concatenate(numbers))
    return {name: _joined(parts)[order] for name, parts in outputs.items()}


def has_nan(outputs: Mapping[str, np.ndarray]) -> bool:
    """Return whether an output is NaN, as those of a model whose training has diverged are."""
    floats = [each for each in outputs.values() if np.issubdtype(each.dtype, np.floating)]
    return any(np.isnan(each).any() for each in floats)


def refuse_nan(outputs: Mapping[str, np.ndarray], model: str) -> None:
    """Raise InputError if an output of the model with this name is NaN."""
    if has_nan(outputs):
        raise InputError(f"{model}: its outputs are NaN; its training has diverged")


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays along the first axis; narrower ones are padded."""
    widest = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    joined = np.full((sum(map(len, parts)), *widest), 0, parts[0].dtype)
    if np.issubdtype(joined.dtype, np.floating):
        joined.fill(OUTPUT_PADDING)
    start = 0
    for part in parts:
        joined[(slice(start, start + len(part)), *map(slice, part.shape[1:]))] = part
        start += len(part)
    return joined
