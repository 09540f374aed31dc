"""The training loop and the evaluation loop, over any model, objective and data."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.checkpoints import Checkpoints
from albert_tf.engines.tensorflow.replicas import check_replicas
from albert_tf.engines.tensorflow.step import EvalStep, PredictStep, TrainStep
from albert_tf.engines.tensorflow.strategy import Batches, distribute
from albert_tf.errors import InputError, Stopped
from albert_tf.files import tensorflow_reason
from albert_tf.modeling.losses import means
from albert_tf.training.evaluation import PeriodicEvaluation, describe
from albert_tf.training.health import Health, Workload
from albert_tf.training.log import NoLog, TrainingLog
from albert_tf.training.stopping import StopSignals


def train(
    step: TrainStep,
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
) -> None:
    """Trains from the optimizer's step up to `num_train_steps`.

    Of several workers, all take the same steps and decisions, and stop where one of them is to
    stop; only the chief writes.

    Args:
        step: does the work.
        batches_from: the global batches of an uninterrupted run, from a given step on.
        checkpoints: saved to every `save_checkpoints_steps` and at the end.
        output_dir: folder of the logs.
        health: makes the metrics, and ends a run that cannot go on.
        workload: what a step computes.
        num_train_steps: step at which training ends.
        save_checkpoints_steps: steps between checkpoints.
        iterations_per_loop: steps in one call into the graph, and in one line of the logs.
        evaluation: to run in the course of training; None for none.

    Raises:
        InputError: losses or gradients are not finite any more, or the data cannot be read.
        OSError: a checkpoint cannot be written.
        Stopped: by SIGTERM or Ctrl-C, after the steps under way are done and saved.
    """
    at = int(step.optimizer.iterations.numpy())
    if evaluation is not None:
        evaluation.catch_up(at, checkpoints.latest)
        if enough := evaluation.reason_to_stop(at):
            print(enough)
            return
    if at >= num_train_steps:
        return
    open_log = TrainingLog if workers.is_chief() else NoLog
    with StopSignals() as signals, contextlib.ExitStack() as stack:
        with workers.everyone():
            log = open_log(output_dir, num_train_steps, at, workload)
        stack.enter_context(contextlib.closing(log))
        stack.enter_context(checkpoints)
        batches = iter(distribute(step.strategy, batches_from(at)))
        while at < num_train_steps:
            to_save = save_checkpoints_steps - at % save_checkpoints_steps
            count = min(iterations_per_loop, to_save, num_train_steps - at)
            if evaluation is not None:
                count = min(count, evaluation.every_steps - at % evaluation.every_steps)
            results = _read(lambda count=count: step(batches, tf.constant(count)))
            at += count
            with workers.everyone():
                log.write(at, health.metrics(results, at), results["history"]["length"].numpy())
                health.check()
                checkpoints.check()
            stopping = workers.agree(signals.received)
            evaluate_now = evaluation is not None and evaluation.is_due(at) and not stopping
            if evaluate_now or at == num_train_steps:
                check_replicas(step.strategy, step.variables, at)
            best, enough = False, None
            if evaluate_now:
                evaluated = _evaluate_in_training(evaluation, at, log)
                best = evaluation.is_best(evaluated)
                enough = evaluation.reason_to_stop(at)
                stopping = workers.agree(signals.received)
            if count == to_save or at == num_train_steps or stopping or best or enough:
                with workers.everyone():
                    checkpoints.save()
            if best:
                with workers.everyone():
                    checkpoints.wait()
                    evaluation.keep_best(checkpoints.latest, evaluated, at)
            if stopping:
                break
            if enough:
                log.note(enough, 0.0)
                break
        with workers.everyone():  # nobody ends before the chief has saved
            checkpoints.wait()
        stopping = workers.agree(signals.received)
    if stopping:
        raise Stopped(stopping, _where_it_stopped(checkpoints, at, num_train_steps))


def _evaluate_in_training(
    evaluation: PeriodicEvaluation, at: int, log: TrainingLog | NoLog
) -> dict[str, float]:
    start = time.monotonic()
    results = evaluation.run(at)
    log.note(describe(at, results), time.monotonic() - start)
    return results


def _where_it_stopped(checkpoints: Checkpoints, at: int, num_train_steps: int) -> str:
    return (
        f"stopped after step {at} of {num_train_steps}, saved as {checkpoints.latest}; the same "
        "command goes on from there"
    )


def evaluate(step: EvalStep, batches: Batches, max_steps: int = 0) -> dict[str, float]:
    """Means of the objective's quantities over a dataset.

    Args:
        step: does the work.
        batches: global batches.
        max_steps: batches at most; 0 for all.

    Returns:
        The mean of every quantity, and the total weight of each part as `PART_weight`.
    """
    distributed: Iterable = distribute(step.strategy, batches)
    if max_steps:
        distributed = itertools.islice(distributed, max_steps)
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for batch in _reading(distributed):
        results = step(batch)
        for totals, new in ((sums, results["sums"]), (weights, results["weights"])):
            for name, value in new.items():
                totals[name] = totals.get(name, 0.0) + float(value.numpy())
    if not weights:
        raise InputError("no example to evaluate on")
    return {**means(sums, weights), **{f"{part}_weight": total for part, total in weights.items()}}


def predict(step: PredictStep, batches: Batches) -> dict[str, np.ndarray]:
    """What a model computes of all examples, in their order.

    Args:
        step: does the work.
        batches: global batches with `example_number`, which is -1 for no example.

    Returns:
        The step's outputs by name, `[examples, ...]`. Where their other axes differ from batch to
        batch, they are filled up with `OUTPUT_PADDING`.
    """
    iterator = iter(distribute(step.strategy, batches))
    numbers: list[np.ndarray] = []
    outputs: dict[str, list[np.ndarray]] = {name: [] for name in step.outputs}
    with contextlib.suppress(tf.errors.OutOfRangeError, StopIteration):
        while True:
            batch, values = step(iterator)
            real = batch.numpy() >= 0
            numbers.append(batch.numpy()[real])
            for name, value in values.items():
                outputs[name].append(value.numpy()[real])
    order = np.argsort(np.concatenate(numbers))
    return {name: _joined(parts)[order] for name, parts in outputs.items()}


# Below every logit, and twice of it is still a float32 number.
OUTPUT_PADDING = -1e30


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Arrays one after the other, filled up where they are of different widths."""
    widest = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    joined = np.full((sum(map(len, parts)), *widest), 0, parts[0].dtype)
    if np.issubdtype(joined.dtype, np.floating):
        joined.fill(OUTPUT_PADDING)
    start = 0
    for part in parts:
        joined[(slice(start, start + len(part)), *map(slice, part.shape[1:]))] = part
        start += len(part)
    return joined


def _read(work: Callable):
    """Calls `work`; an error of the input pipeline becomes one line."""
    try:
        return work()
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, tf.errors.NotFoundError) as e:
        raise InputError(f"the TFRecords cannot be read: {tensorflow_reason(e)}") from None


def _reading(batches: Iterable) -> Iterable:
    iterator = iter(batches)
    while (batch := _read(lambda: next(iterator, None))) is not None:
        yield batch
