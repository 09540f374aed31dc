"""The loops of training, evaluation and prediction, for any engine, model, objective and data."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable

import numpy as np

from albert_tf.engines.base import Batches, Checkpoints, Engine
from albert_tf.engines.steps import EvaluationStep, PredictionStep, TrainingStep
from albert_tf.errors import InputError, Stopped
from albert_tf.modeling.losses import means
from albert_tf.training.evaluation import PeriodicEvaluation, describe
from albert_tf.training.health import Health, Workload, memory
from albert_tf.training.log import NoLog, TrainingLog
from albert_tf.training.stopping import StopSignals
from albert_tf.training.time_limit import TimeLimit

_logger = logging.getLogger(__name__)

# What `predict` pads outputs with: below every logit, and twice of it is still a float32 number.
OUTPUT_PADDING = -1e30


def train(
    engine: Engine,
    training_step: TrainingStep,
    batches_from: Callable[[int], Batches],
    checkpoints: Checkpoints,
    output_dir: str,
    health: Health,
    workload: Workload,
    *,
    num_train_steps: int,
    save_checkpoints_steps: int,
    iterations_per_loop: int,
    evaluation: PeriodicEvaluation | None = None,
    max_train_minutes: float = 0.0,
) -> None:
    """Trains from the current step up to `num_train_steps`, or until the training time is over.

    Several workers take the same steps and decisions, and all stop where one of them is asked to
    stop; only the chief writes.

    Args:
        engine: where the steps run.
        training_step: the model, its optimizer and its objective.
        batches_from: the global batches of an uninterrupted run, from a given step on.
        checkpoints: saves every `save_checkpoints_steps` steps and at the end.
        output_dir: folder of the logs.
        health: computes the metrics, and ends a run whose updates are all skipped.
        workload: what a step computes.
        num_train_steps: step at which training ends.
        save_checkpoints_steps: steps between checkpoints.
        iterations_per_loop: steps in one call of the engine, and in one line of the logs.
        evaluation: evaluates during training; None for no evaluation.
        max_train_minutes: training time, as `TimeLimit` counts it over restarts, after which
            training ends; 0 for no limit.

    Raises:
        InputError: losses or gradients are no longer finite, or the data cannot be read.
        OSError: a checkpoint cannot be written.
        Stopped: by SIGTERM or Ctrl-C, after the current steps are done and saved.
    """
    workers = engine.workers
    step = training_step.step
    if evaluation is not None:
        evaluation.catch_up(step, checkpoints.latest)
        if stop_reason := evaluation.stop_reason(step):
            _logger.info("%s", stop_reason)
            return
    if step >= num_train_steps:
        return
    time_limit = TimeLimit(workers, max_train_minutes, output_dir, step)
    if stop_reason := time_limit.stop_reason(step):
        _logger.info("%s", stop_reason)
        return
    open_log = TrainingLog if workers.is_chief else NoLog
    with StopSignals() as signals, contextlib.ExitStack() as stack:
        with workers.synchronized():
            log = open_log(output_dir, num_train_steps, step, workload)
        stack.enter_context(contextlib.closing(log))
        stack.enter_context(checkpoints)
        checkpoints.before_listing = log.wait
        batches = engine.iterate(batches_from(step))
        while step < num_train_steps:
            steps_to_save = save_checkpoints_steps - step % save_checkpoints_steps
            count = min(iterations_per_loop, steps_to_save, num_train_steps - step)
            if evaluation is not None:
                count = min(count, evaluation.every_steps - step % evaluation.every_steps)
            count = time_limit.steps(count)
            start = time.monotonic()
            results = training_step(batches, count)
            time_limit.add(count, time.monotonic() - start)
            step += count
            with workers.synchronized():
                metrics = health.metrics(results, step) | memory(engine.device_memory_peak())
                metrics |= time_limit.metrics
                log.write(step, metrics, results.history["length"], time_limit.seconds_left)
                health.check()
                checkpoints.check()
            stop_signal = workers.agree(signals.received)
            evaluate_now = evaluation is not None and evaluation.is_due(step) and not stop_signal
            is_best = False
            stop_reason = time_limit.stop_reason(step) if step < num_train_steps else None
            if evaluate_now or stop_reason or step == num_train_steps:
                training_step.check_replicas()
            if evaluation is not None and evaluate_now:
                evaluated = _evaluate_in_training(evaluation, step, log)
                is_best = evaluation.is_best(evaluated)
                stop_reason = evaluation.stop_reason(step) or stop_reason
                stop_signal = workers.agree(signals.received)
            stops = bool(stop_signal or stop_reason)
            if count == steps_to_save or step == num_train_steps or is_best or stops:
                with workers.synchronized():
                    log.sync()
                    checkpoints.save()
            if evaluation is not None and is_best:
                with workers.synchronized():
                    checkpoints.wait()
                    if checkpoints.latest is not None:
                        evaluation.keep_best(checkpoints.latest, evaluated, step)
            if stop_reason and not stop_signal:
                log.note(stop_reason, 0.0)
            if stops:
                break
        with workers.synchronized():  # no worker ends before the chief has saved
            checkpoints.wait()
        stop_signal = workers.agree(signals.received)
    if stop_signal:
        raise Stopped(
            stop_signal,
            f"Stopped at step {step} of {num_train_steps} and saved {checkpoints.latest}. Rerun "
            "the same command to resume.",
        )


def _evaluate_in_training(
    evaluation: PeriodicEvaluation, step: int, log: TrainingLog | NoLog
) -> dict[str, float]:
    start = time.monotonic()
    results = evaluation.run(step)
    log.note(describe(step, results), time.monotonic() - start)
    return results


def evaluate(
    engine: Engine, evaluation_step: EvaluationStep, batches: Batches, max_steps: int = 0
) -> dict[str, float]:
    """Means of the objective's quantities over a data set.

    Args:
        engine: where the steps run.
        evaluation_step: the model and its objective.
        batches: global batches.
        max_steps: maximum number of batches; 0 for all.

    Returns:
        The mean of every quantity, and the total weight of each part as `PART_weight`.

    Raises:
        InputError: the data cannot be read, or there is none.
    """
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for batch in itertools.islice(engine.iterate(batches), max_steps or None):
        batch_sums, batch_weights = evaluation_step(batch)
        for totals, values in ((sums, batch_sums), (weights, batch_weights)):
            for name, value in values.items():
                totals[name] = totals.get(name, 0.0) + value
    if not weights:
        raise InputError("no example to evaluate on")
    return {**means(sums, weights), **{f"{part}_weight": total for part, total in weights.items()}}


def predict(
    engine: Engine, prediction_step: PredictionStep, batches: Batches
) -> dict[str, np.ndarray]:
    """What a model computes for all examples, in their order.

    Args:
        engine: where the steps run.
        prediction_step: the model.
        batches: global batches with `example_number`, which is -1 for what pads a batch.

    Returns:
        The step's outputs by name, `[examples, ...]`. Where their other axes differ from batch to
        batch, they are padded with `OUTPUT_PADDING`.
    """
    iterator = engine.iterate(batches)
    numbers: list[np.ndarray] = []
    outputs: dict[str, list[np.ndarray]] = {name: [] for name in prediction_step.outputs}
    with contextlib.suppress(StopIteration):
        while True:
            batch_numbers, values = prediction_step(iterator)
            real = batch_numbers >= 0
            numbers.append(batch_numbers[real])
            for name, value in values.items():
                outputs[name].append(value[real])
    order = np.argsort(np.concatenate(numbers))
    return {name: _joined(parts)[order] for name, parts in outputs.items()}


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenates arrays along the first axis; narrower ones are padded."""
    widest = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    joined = np.full((sum(map(len, parts)), *widest), 0, parts[0].dtype)
    if np.issubdtype(joined.dtype, np.floating):
        joined.fill(OUTPUT_PADDING)
    start = 0
    for part in parts:
        place = (slice(start, start + len(part)), *map(slice, part.shape[1:]))
        joined[place] = part
        start += len(part)
    return joined
