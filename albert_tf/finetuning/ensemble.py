"""Ensembles: the averaged predictions of several models of one task (paper, section 4.9)."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import make_folder, write_text
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.single_run import FineTuningRun, RunContext
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.interop.adjacent_files import EVALUATION_DATA_FILE, LABELS_FILE
from albert_tf.training.evaluation import is_better
from albert_tf.training.run import write_results

logger = logging.getLogger(__name__)

# A row per model, and one of the ensemble.
TABLE_FILE = "ensemble.tsv"


class Member(NamedTuple):
    """A model of an ensemble.

    Attributes:
        options: with which it evaluates and predicts alone.
        context: its task and examples.
    """

    options: FineTuningOptions
    context: RunContext


class Predicted(NamedTuple):
    """What a model of an ensemble predicts.

    Attributes:
        step: training steps of its weights.
        outputs: per set.
        results: of its evaluation; empty without one.
    """

    step: int
    outputs: list[Outputs]
    results: dict[str, float]


def evaluate_ensemble(options: FineTuningOptions, members: Sequence[Member]) -> None:
    """Evaluate and predict with the mean of several models, one after the other in memory.

    Writes to `output_dir` what a single model would: with `do_eval` `eval_results.txt`, with
    `do_predict` the predictions, and a report; also `ensemble.tsv`, the results of each model.
    The folders of the models are only read.

    Args:
        options: of the program, checked.
        members: the models, which `check_alike` accepts.
    """
    engine = members[0].context.engine
    with engine.workers.losses_reported():
        with engine.workers.synchronized():
            if engine.workers.is_chief:
                make_folder(options.output_dir, "output_dir")
        _write(options, members, [_predict(member) for member in members])
        with engine.workers.synchronized():
            pass
        engine.workers.linger()


def check_alike(first: Member, other: Member) -> None:
    """Raise InputError if the outputs of two models are about different things."""
    folder, task = other.options.output_dir, other.context.task
    wanted = first.context.task.ensemble_settings()
    for name, value in task.ensemble_settings().items():
        if value != wanted[name]:
            raise InputError(
                f"`ensemble`={folder}: {name} {_shown(value)}, but {_shown(wanted[name])} in "
                f"{first.options.output_dir}; the models of an ensemble must agree"
            )
    for examples, others in zip(first.context.sets, other.context.sets, strict=True):
        same = len(examples.examples) == len(others.examples)
        if task.averages_tokens:
            same = _hash_of_tokens(examples) == _hash_of_tokens(others)
        if not same:
            raise InputError(
                f"`ensemble`={folder}: the examples have other tokens than in "
                f"{first.options.output_dir}, and scores of tokens are averaged; the models must "
                "have the same vocabulary, lower-casing and lengths"
            )


def _shown(value: Any) -> str:
    return ", ".join(map(str, value[:10])) if isinstance(value, list) else str(value)


def _hash_of_tokens(examples: ExampleSet) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(examples.features.inputs().items()):
        digest.update(f"{name} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _predict(member: Member) -> Predicted:
    options, context = member
    logger.info("running %s", options.output_dir)
    run = FineTuningRun(options.resolved(0), context)
    run.choose_checkpoint()
    sizes = {"eval": options.eval_batch_size, "predict": options.predict_batch_size}
    outputs = [run.outputs_of(each, sizes[each.split]) for each in context.sets]
    results = _score(context.task, context.sets, outputs)
    step = run.step
    del run
    keras.backend.clear_session()  # or the graphs of all models stay in memory
    gc.collect()
    return Predicted(step, outputs, results)


def _score(
    task: FineTuningTask, sets: Sequence[ExampleSet], outputs: Sequence[Outputs]
) -> dict[str, float]:
    results: dict[str, float] = {}
    for examples, each in zip(sets, outputs, strict=True):
        if examples.split == "eval":
            results |= task.score(examples, each)
    return results


def _write(
    options: FineTuningOptions, members: Sequence[Member], predicted: Sequence[Predicted]
) -> None:
    context, folder = members[0].context, options.output_dir
    task, sets, is_chief = context.task, context.sets, context.engine.workers.is_chief
    # Thresholds, names in messages and submissions are those of the ensemble.
    task.options = dataclasses.replace(task.options, output_dir=folder)
    columns = zip(*(each.outputs for each in predicted), strict=True)
    outputs = [task.average(each, column) for each, column in zip(sets, columns, strict=True)]
    if results := _score(task, sets, outputs):
        rows = [(m.options.output_dir, p) for m, p in zip(members, predicted, strict=True)]
        if is_chief:
            write_text(f"{folder}/{TABLE_FILE}", _table(rows, results))
            write_text(f"{folder}/{EVALUATION_DATA_FILE}", context.evaluation_data)
        singles = [each.results[task.metric] for each in predicted]
        write_results(context.engine, folder, {**results, **_compare(task.metric, singles)})
        _report_gain(task.metric, results[task.metric], singles)
    if not is_chief:
        return
    if LABELS_FILE in context.description:
        write_text(f"{folder}/{LABELS_FILE}", str(context.description[LABELS_FILE]))
    for examples, each in zip(sets, outputs, strict=True):
        if examples.split == "predict":
            task.write_predictions(folder, examples, each)
    from albert_tf.finetuning.run_report import write_report  # loads Matplotlib

    write_report(options, task, sets, list(zip(sets, outputs, strict=True)))


def _best(metric: str, values: Sequence[float]) -> float:
    best = values[0]
    for value in values[1:]:
        best = value if is_better(metric, value, best) else best
    return best


def _compare(metric: str, singles: Sequence[float]) -> dict[str, float]:
    """Return what `eval_results.txt` has about the single models."""
    return {
        "ensemble_models": len(singles),
        f"single_best_{metric}": _best(metric, singles),
        f"single_mean_{metric}": float(np.mean(singles)),
        **{f"single_{n}_{metric}": value for n, value in enumerate(singles, start=1)},
    }


def _report_gain(metric: str, value: float, singles: Sequence[float]) -> None:
    best, mean = _best(metric, singles), float(np.mean(singles))
    logger.info(
        "%s: %.4f by the ensemble of %d models; %.4f by the best of them (%+.4f), %.4f on average "
        "(%+.4f)",
        *(metric, value, len(singles), best, value - best, mean, value - mean),
    )


def _table(rows: Sequence[tuple[str, Predicted]], results: dict[str, float]) -> str:
    names = sorted(results)
    lines = [["model", "step", *names]]
    for folder, each in rows:
        lines.append([folder, str(each.step), *(f"{each.results[n]:.8g}" for n in names)])
    lines.append(["ensemble", "", *(f"{results[name]:.8g}" for name in names)])
    return "".join("\t".join(line) + "\n" for line in lines)
