"""The runs of one command, one after the other: other settings, folds, models of an ensemble."""

import dataclasses
import functools
import gc
import itertools
import json
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, make_folder, read_json, to_json, write_files, write_text
from albert_tf.finetuning.context import CreateTask, Run, RunContext, open_context
from albert_tf.finetuning.finetuning_options import (
    ENSEMBLE_FILE,
    FOLD_ROWS_FILE,
    SEEDS_FILE,
    FineTuningOptions,
)
from albert_tf.finetuning.single_run import (
    FINISHED_FILE,
    FineTuningRun,
    RunRecord,
    Scored,
    finish,
    finished_record,
    write_answers,
)
from albert_tf.finetuning.task import ExampleSet, Fold, Outputs, data_key
from albert_tf.finetuning.teacher import taught_set
from albert_tf.finetuning.trained_settings import with_trained_settings
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.report.sections import Section, table_of, text_table, to_tsv
from albert_tf.training.evaluation import best_of
from albert_tf.training.loop import refuse_nan
from albert_tf.training.run import training_folder, write_description

logger = logging.getLogger(__name__)

# Of several runs and folds: a row for each.
GRID_FILE, FOLDS_FILE = "grid.tsv", "folds.tsv"

Result = TypeVar("Result")
# Creates the model of a run.
Create: TypeAlias = Callable[[], FineTuningRun]


def _in_turn(
    runs: Sequence[Run], title: str, use: Callable[[FineTuningOptions, Create], Result]
) -> list[Result]:
    """Use each run, by its options and what creates its model, of which one is in memory at a time.

    The title is logged before the folder of a run, with its number and their count for `{}`.
    """
    results = []
    for number, (options, context) in enumerate(runs, start=1):
        logger.info("%s %s", title.format(number, len(runs)), options.output_dir)
        results.append(use(options, functools.partial(FineTuningRun, options, context)))
        keras.backend.clear_session()  # or the graphs of all models stay in memory
        gc.collect()
    return results


def run_variants(options: FineTuningOptions, runs: Sequence[Run]) -> FineTuningRun:
    """Train and evaluate every run that is not finished yet, and compare them.

    Returns:
        The best run as one in `output_dir`, with its checkpoint in `best/` there.
    """
    context, folder = runs[0][1], options.output_dir
    data = data_key(each for each in context.sets if each.split != "predict")
    metric = context.task.metric

    def evaluate(changed: FineTuningOptions, create: Create) -> RunRecord:
        if record := finished_record(changed, data):
            logger.info("already finished")
            return record
        model = create().start()
        model.write_results()
        return finish(changed, data, model)

    records = _in_turn(runs, "run {} of {}:", evaluate)
    best = _compare(options, records, metric)
    chosen, record = runs[best][0], records[best]
    path = f"{chosen.output_dir}/{record['checkpoint']}"
    if path not in context.engine.checkpoints_in(os.path.dirname(path)).all():
        raise InputError(
            f"{path}: this checkpoint no longer exists; delete {chosen.output_dir}/"
            f"{FINISHED_FILE} to repeat the run"
        )
    write_description(context.engine, folder, context.config, context.description)
    model = FineTuningRun(dataclasses.replace(chosen, output_dir=folder), context)
    model.best.keep(path, record["results"][metric], record["step"], record["results"])
    model.load_best()
    return model


def _compare(options: FineTuningOptions, records: list[RunRecord], metric: str) -> int:
    """Print and write the comparison of finished runs; return the index of the best.

    Leaves `grid.tsv`, a row per run, and `seeds.json`, with statistics over the seeds of each
    setting. The records of a setting are together.

    Raises:
        InputError: If no run has a finite result.
    """
    rows: list[dict[str, Any]] = [
        {
            "folder": record["folder"],
            "learning_rate": record["learning_rate"],
            "train_batch_size": record["train_batch_size"],
            "random_seed": record["random_seed"],
            metric: record["results"][metric],  # before the others
            **record["results"],
            "step": record["step"],
            "collapsed": record["collapsed"] or "",
        }
        for record in records
    ]
    best = best_of(metric, rows)
    if best is None:
        raise InputError(f"no run has a finite {metric}; try a lower `learning_rate`")
    name = rows[best]["folder"]
    settings = itertools.groupby(rows, lambda row: (row["learning_rate"], row["train_batch_size"]))
    summary = [_summary(list(of_setting), metric) for _, of_setting in settings]
    content = {"metric": metric, "best": name, "settings": summary, "runs": rows}
    write_text(f"{options.output_dir}/{SEEDS_FILE}", to_json(content, indent=2) + "\n")
    write_text(f"{options.output_dir}/{GRID_FILE}", to_tsv(rows))
    for table in (rows, summary) if options.seeds > 1 else (rows,):
        logger.info("%s\n", text_table(*table_of(table, 4)[:2]))
    logger.info("best run: %s, %s %.4f", name, metric, rows[best][metric])
    return best


def _summary(rows: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Return statistics of the runs of one setting."""
    values = np.array([row[metric] for row in rows])
    best = best_of(metric, rows)
    return {
        "learning_rate": rows[0]["learning_rate"],
        "train_batch_size": rows[0]["train_batch_size"],
        "runs": len(rows),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "standard_deviation": float(values.std(ddof=1)) if len(rows) > 1 else math.nan,
        "minimum": float(values.min()),
        "best": math.nan if best is None else rows[best][metric],
        "best_folder": "" if best is None else rows[best]["folder"],
        "collapsed": sum(bool(row["collapsed"]) for row in rows),
    }


def cross_validate(options: FineTuningOptions, context: RunContext, folds: Sequence[Fold]) -> None:
    """Train a model for each fold, and score all rows by the models that did not see them.

    Leaves in `output_dir` a folder for each fold, `folds.tsv` with their results, and as for an
    evaluation on all rows `eval_results.txt`, the predictions and a report. A fold that was
    trained before is not trained again.

    Raises:
        InputError: If `output_dir` has folds of other rows.
    """
    task, folder = context.task, options.output_dir
    (train,) = context.of_split("train")
    runs: list[Run] = []
    for number, fold in enumerate(folds, start=1):
        own = context._replace(sets=sets_of_fold(context, train, fold))
        changed = dataclasses.replace(options, output_dir=f"{folder}/fold-{number}")
        runs.append((changed.resolved(own.epoch_size), own))
    # A model of other rows may have seen its fold.
    path, keys = f"{folder}/{FOLD_ROWS_FILE}", [data_key(own.sets) for _, own in runs]
    if exists(path) and read_json(path, list[str]) != keys:
        raise InputError(
            f"`output_dir`={folder}: contains folds of other rows, or of other tokens; name "
            "another folder"
        )
    write_text(path, json.dumps(keys, indent=2) + "\n")
    for each, _ in runs:
        each.check_steps()

    def evaluate(changed: FineTuningOptions, create: Create) -> Scored:
        model = create().start()
        model.write_results()
        for outputs in model.evaluation.outputs:
            refuse_nan(outputs, changed.output_dir)
        return model.evaluation

    scored = _in_turn(runs, "fold {} of {}:", evaluate)
    rows = dataclasses.replace(train, split="eval")
    order = np.argsort(np.concatenate([held_out for _, held_out in folds]))
    parts = [outputs for each in scored for outputs in each.outputs]
    outputs = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    table: list[dict[str, Any]] = [
        {"fold": number, "rows": len(fold[1]), **each.results}
        for number, (fold, each) in enumerate(zip(folds, scored, strict=True), start=1)
    ]
    write_text(f"{folder}/{FOLDS_FILE}", to_tsv(table))
    logger.info("%s\n", text_table(*table_of(table, 4)[:2]))
    write_files(folder, task.adjacent_files())
    context = context._replace(sets=[rows])
    context.write_results(folder, {**task.score(rows, outputs), "folds": len(folds)})
    task.write_predictions(folder, rows, outputs)
    text = "Every row was predicted by the model of its fold, which was trained on the other folds."
    section = Section("Folds", text, tables=[table_of(table, 4)])
    score = write_answers(options, context, [(rows, outputs)], [section])[task.metric]
    logger.info(
        "%s: %s of all %d rows; 95%% interval %s",
        *(task.metric, score.value, len(rows.examples)),
        f"{score.interval} ({score.method})" if score.interval else "unknown",
    )


def sets_of_fold(context: RunContext, train: ExampleSet, fold: Fold) -> list[ExampleSet]:
    """Return the sets of a run that trains on some rows and scores the others."""
    sets = []
    for split, numbers in zip(("train", "eval"), fold, strict=True):
        examples = [train.examples[number] for number in numbers]
        sets.append(ExampleSet(split, "", examples, context.task.encode(split, examples)))
    if train.taught:
        sets[0] = taught_set(context.task, sets[0], [train.taught[number] for number in fold[0]])
    return sets


def _open_members(members: Sequence[FineTuningOptions], create_task: CreateTask) -> list[Run]:
    """Open the models of an ensemble; raise InputError if they do not fit together."""
    runs: list[Run] = []
    for options in members:
        logger.info("model %d: %s", len(runs) + 1, options.output_dir)
        engine = runs[0][1].engine if runs else None
        with arguments_renamed(output_dir="ensemble"):
            runs.append(open_context(with_trained_settings(options), create_task, engine))
        _check_alike(runs[0], runs[-1])
    return runs


def _check_alike(first: Run, other: Run) -> None:
    """Raise InputError if the outputs of two models are about different things."""
    (options, context), (other_options, its_context) = first, other
    folder, task = other_options.output_dir, its_context.task

    def shown(value: Any) -> str:
        return ", ".join(map(str, value[:10])) if isinstance(value, list) else str(value)

    wanted = context.task.ensemble_settings()
    for name, value in task.ensemble_settings().items():
        if value != wanted[name]:
            raise InputError(
                f"`ensemble`={folder}: {name} {shown(value)}, but {shown(wanted[name])} in "
                f"{options.output_dir}; the models of an ensemble must agree"
            )
    for pair in zip(context.sets, its_context.sets, strict=True):
        one, its = (data_key([x]) if task.averages_tokens else len(x.examples) for x in pair)
        if one != its:
            raise InputError(
                f"`ensemble`={folder}: the examples have other tokens than in "
                f"{options.output_dir}, and scores of tokens are averaged; the models must "
                "have the same vocabulary, lower-casing and lengths"
            )


def evaluate_ensemble(
    options: FineTuningOptions, members: Sequence[FineTuningOptions], create_task: CreateTask
) -> None:
    """Evaluate and predict with the mean of several models of one task (paper, section 4.9).

    Writes to `output_dir` what a single model would: with `do_eval` `eval_results.txt`, with
    `do_predict` the predictions, and a report; also `ensemble.tsv`, the results of each model.
    The folders of the models are only read. The `members` are the options with which each model
    evaluates and predicts alone.

    Raises:
        InputError: If an argument or file is invalid, or the models do not fit together.
    """
    runs = _open_members(members, create_task)
    context, folder = runs[0][1], options.output_dir
    task, sets, workers = context.task, context.sets, context.engine.workers

    def predict(member: FineTuningOptions, create: Create) -> tuple[dict, list[Outputs]]:
        model = create().start()
        outputs = [*model.evaluation.outputs]
        for each in outputs:
            refuse_nan(each, f"`ensemble`={member.output_dir}")
        outputs += map(model.outputs_of, model.context.of_split("predict"))
        row = {"model": member.output_dir, "step": model.step}
        return row | dict(sorted(model.evaluation.results.items())), outputs

    with training_folder(options, context.engine):
        with workers.synchronized():
            if workers.is_chief:
                make_folder(folder, "output_dir")
        rows, predicted = zip(*_in_turn(runs, "running", predict), strict=True)
        # Thresholds, names in messages and submissions are those of the ensemble.
        task.options = dataclasses.replace(task.options, output_dir=folder)
        columns = zip(sets, zip(*predicted, strict=True), strict=True)
        reported = [(each, task.average(each, column)) for each, column in columns]
        results: dict[str, float] = {}
        for examples, outputs in reported:
            if examples.split == "eval":
                results |= task.score(examples, outputs)
        table = f"{folder}/{ENSEMBLE_FILE}"
        if workers.is_chief and (results or not exists(table)):
            joint = {"model": "ensemble", "step": "", **dict(sorted(results.items()))}
            write_text(table, to_tsv([*rows, joint]))
        if results:
            context.write_results(folder, results | _compared(task.metric, results, rows))
        if workers.is_chief and LABELS_FILE in context.description:
            write_text(f"{folder}/{LABELS_FILE}", str(context.description[LABELS_FILE]))
        write_answers(options, context, reported)


def _compared(metric: str, joint: Mapping[str, float], rows: Sequence[dict]) -> dict[str, float]:
    """Compare the result of an ensemble with those of its models, for `eval_results.txt`."""
    singles = [row[metric] for row in rows]
    value, best, mean = joint[metric], singles[best_of(metric, rows) or 0], float(np.mean(singles))
    logger.info(
        "%s: %.4f by the ensemble of %d models; %.4f by the best of them (%+.4f), %.4f on "
        "average (%+.4f)",
        *(metric, value, len(singles), best, value - best, mean, value - mean),
    )
    return {
        "ensemble_models": len(singles),
        f"single_best_{metric}": best,
        f"single_mean_{metric}": mean,
        **{f"single_{n}_{metric}": each for n, each in enumerate(singles, start=1)},
    }
