"""The runs of one command, one after the other: other settings, folds, models of an ensemble."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_json, write_text
from albert_tf.finetuning.finetuning_options import ENSEMBLE_FILE, FOLD_ROWS_FILE, FineTuningOptions
from albert_tf.finetuning.run_comparison import (
    RunRecord,
    aligned,
    best_of,
    checkpoint_of,
    compare_runs,
    data_key,
    finish,
    finished_record,
    to_tsv,
)
from albert_tf.finetuning.single_run import FineTuningRun, RunContext, Scored
from albert_tf.finetuning.task import ExampleSet, Fold, Outputs
from albert_tf.finetuning.teacher import taught_set
from albert_tf.interop.file_names import EVALUATION_DATA_FILE, LABELS_FILE
from albert_tf.report.sections import Section
from albert_tf.training.loop import refuse_nan
from albert_tf.training.run import training_folder, write_description, write_results

logger = logging.getLogger(__name__)

# A row for each fold.
FOLDS_FILE = "folds.tsv"

Result = TypeVar("Result")


class Run(NamedTuple):
    """A run in a folder of its own.

    Attributes:
        options: of this run, with `resolved` numbers of steps.
        context: its task and examples.
    """

    options: FineTuningOptions
    context: RunContext

    def start(self) -> FineTuningRun:
        """Train or resume, if the options ask for it, and load the checkpoint to evaluate."""
        if self.options.do_train:
            make_folder(self.options.output_dir, "output_dir")
        model = FineTuningRun(self.options, self.context)
        model.train()
        model.choose_checkpoint()
        return model


def in_turn(
    runs: Sequence[Run],
    title: str,
    use: Callable[[Run, FineTuningRun], Result],
    finished: Callable[[Run], Result | None] = lambda run: None,
) -> list[Result]:
    """Train or resume each run, choose its checkpoint and use it; one model is in memory at a time.

    Args:
        runs: to train, if their options ask for it.
        title: what is logged before the folder of a run, with `{}` for its number and their count.
        use: what is done with a model, and returned.
        finished: the same of a run that need not be repeated; None if it must be.
    """
    results = []
    for number, run in enumerate(runs, start=1):
        logger.info("%s %s", title.format(number, len(runs)), run.options.output_dir)
        result = finished(run)
        if result is None:
            model = run.start()
            result = use(run, model)
            del model
            keras.backend.clear_session()  # or the graphs of all models stay in memory
            gc.collect()
        else:
            logger.info("already finished")
        results.append(result)
    return results


def run_variants(options: FineTuningOptions, variants: Sequence[Run]) -> FineTuningRun:
    """Train and evaluate every variant that is not finished yet, and compare them.

    Returns:
        The best run as one in `output_dir`, with its checkpoint in `best/` there.
    """
    context = variants[0].context
    data = data_key(each for each in context.sets if each.split != "predict")
    metric = context.task.metric

    def evaluate(run: Run, model: FineTuningRun) -> RunRecord:
        model.write_results()
        return finish(run.options, data, model.step, model.checkpoint, *model.evaluation[:2])

    records = in_turn(
        variants, "run {} of {}:", evaluate, lambda run: finished_record(run.options, data)
    )
    best = compare_runs(options.output_dir, records, metric, options.seeds > 1)
    chosen, results = variants[best].options, records[best]["results"]
    path = checkpoint_of(context.engine, chosen, records[best])
    write_description(context.engine, options.output_dir, context.config, context.description)
    model = FineTuningRun(dataclasses.replace(chosen, output_dir=options.output_dir), context)
    model.best.keep(path, results[metric], records[best]["step"], results)
    model.load_best()
    return model


def cross_validate(options: FineTuningOptions, context: RunContext, folds: Sequence[Fold]) -> None:
    """Train a model for each fold, and score all rows by the models that did not see them.

    Leaves in `output_dir` a folder for each fold, `folds.tsv` with their results, and as for an
    evaluation on all rows `eval_results.txt`, the predictions and a report. A fold that was
    trained before is not trained again.

    Args:
        options: of the program.
        context: with the rows as the training set.
        folds: of the rows.

    Raises:
        InputError: If `output_dir` has folds of other rows.
    """
    task, folder = context.task, options.output_dir
    (train,) = context.of_split("train")
    runs = []
    for number, fold in enumerate(folds, start=1):
        own = context._replace(sets=sets_of_fold(context, train, fold))
        changed = dataclasses.replace(options, output_dir=f"{folder}/fold-{number}")
        runs.append(Run(changed.resolved(own.epoch_size), own))
    _check_rows(folder, [data_key(run.context.sets) for run in runs])
    for run in runs:
        run.options.check_steps()

    def evaluate(run: Run, model: FineTuningRun) -> Scored:
        model.write_results()
        for outputs in model.evaluation.outputs:
            refuse_nan(outputs, run.options.output_dir)
        return model.evaluation

    scored = in_turn(runs, "fold {} of {}:", evaluate)
    rows = dataclasses.replace(train, split="eval")
    order = np.argsort(np.concatenate([held_out for _, held_out in folds]))
    parts = [outputs for each in scored for outputs in each.outputs]
    outputs = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    table: list[dict[str, Any]] = [
        {"fold": number, "rows": len(fold[1]), **each.results}
        for number, (fold, each) in enumerate(zip(folds, scored, strict=True), start=1)
    ]
    write_text(f"{folder}/{FOLDS_FILE}", to_tsv(table))
    logger.info("%s", aligned(table))
    data = context._replace(sets=[rows]).evaluation_data
    for name, content in {**task.adjacent_files(), EVALUATION_DATA_FILE: data}.items():
        write_text(f"{folder}/{name}", content)
    write_results(context.engine, folder, {**task.score(rows, outputs), "folds": len(folds)})
    task.write_predictions(folder, rows, outputs)
    from albert_tf.finetuning.run_report import table_of, write_report  # loads Matplotlib

    text = "Every row was predicted by the model of its fold, which was trained on the other folds."
    section = Section("Folds", text, tables=[table_of(table, digits=4)])
    score = write_report(options, task, [rows], [(rows, outputs)], [section])[task.metric]
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
        taught = [train.taught[number] for number in fold[0]]
        sets[0] = taught_set(context.task, sets[0], taught)
    return sets


def _check_rows(folder: str, keys: list[str]) -> None:
    """Record what the folds are trained on; a model of other rows may have seen its fold."""
    path = f"{folder}/{FOLD_ROWS_FILE}"
    if exists(path) and read_json(path, list[str]) != keys:
        raise InputError(
            f"`output_dir`={folder}: contains folds of other rows, or of other tokens; name "
            "another folder"
        )
    write_text(path, json.dumps(keys, indent=2) + "\n")


def evaluate_ensemble(options: FineTuningOptions, members: Sequence[Run]) -> None:
    """Evaluate and predict with the mean of several models of one task (paper, section 4.9).

    Writes to `output_dir` what a single model would: with `do_eval` `eval_results.txt`, with
    `do_predict` the predictions, and a report; also `ensemble.tsv`, the results of each model.
    The folders of the models are only read.

    Args:
        options: of the program, checked.
        members: the models, which `check_alike` accepts.
    """
    workers = members[0].context.engine.workers
    with training_folder(options, members[0].context.engine):
        with workers.synchronized():
            if workers.is_chief:
                make_folder(options.output_dir, "output_dir")
        _write_mean(options, members)


def check_alike(first: Run, other: Run) -> None:
    """Raise InputError if the outputs of two models are about different things."""
    folder, task = other.options.output_dir, other.context.task
    wanted = first.context.task.ensemble_settings()
    for name, value in task.ensemble_settings().items():
        if value != wanted[name]:
            raise InputError(
                f"`ensemble`={folder}: {name} {_shown(value)}, but {_shown(wanted[name])} in "
                f"{first.options.output_dir}; the models of an ensemble must agree"
            )
    for one, its in zip(first.context.sets, other.context.sets, strict=True):
        same = len(one.examples) == len(its.examples)
        if task.averages_tokens:
            same = data_key([one]) == data_key([its])
        if not same:
            raise InputError(
                f"`ensemble`={folder}: the examples have other tokens than in "
                f"{first.options.output_dir}, and scores of tokens are averaged; the models must "
                "have the same vocabulary, lower-casing and lengths"
            )


def _shown(value: Any) -> str:
    return ", ".join(map(str, value[:10])) if isinstance(value, list) else str(value)


def _write_mean(options: FineTuningOptions, members: Sequence[Run]) -> None:
    def predict(run: Run, model: FineTuningRun) -> tuple[dict[str, Any], list[Outputs]]:
        outputs = [*model.evaluation.outputs]
        for each in outputs:
            refuse_nan(each, f"`ensemble`={run.options.output_dir}")
        outputs += map(model.outputs_of, run.context.of_split("predict"))
        row = {"model": run.options.output_dir, "step": model.step}
        return row | dict(sorted(model.evaluation.results.items())), outputs

    rows, predicted = zip(*in_turn(members, "running", predict), strict=True)
    context, folder = members[0].context, options.output_dir
    task, sets, is_chief = context.task, context.sets, context.engine.workers.is_chief
    # Thresholds, names in messages and submissions are those of the ensemble.
    task.options = dataclasses.replace(task.options, output_dir=folder)
    columns = zip(*predicted, strict=True)
    outputs = [task.average(each, column) for each, column in zip(sets, columns, strict=True)]
    results: dict[str, float] = {}
    for examples, each in zip(sets, outputs, strict=True):
        if examples.split == "eval":
            results |= task.score(examples, each)
    table = f"{folder}/{ENSEMBLE_FILE}"
    if is_chief and (results or not exists(table)):
        joint = {"model": "ensemble", "step": "", **dict(sorted(results.items()))}
        write_text(table, to_tsv([*rows, joint]))
    if results:
        metric, value = task.metric, results[task.metric]
        singles = [row[metric] for row in rows]
        best, mean = singles[best_of(metric, singles) or 0], float(np.mean(singles))
        if is_chief:
            write_text(f"{folder}/{EVALUATION_DATA_FILE}", context.evaluation_data)
        compared = {
            "ensemble_models": len(singles),
            f"single_best_{metric}": best,
            f"single_mean_{metric}": mean,
            **{f"single_{n}_{metric}": each for n, each in enumerate(singles, start=1)},
        }
        write_results(context.engine, folder, results | compared)
        logger.info(
            "%s: %.4f by the ensemble of %d models; %.4f by the best of them (%+.4f), %.4f on "
            "average (%+.4f)",
            *(metric, value, len(singles), best, value - best, mean, value - mean),
        )
    if not is_chief:
        return
    if LABELS_FILE in context.description:
        write_text(f"{folder}/{LABELS_FILE}", str(context.description[LABELS_FILE]))
    reported = list(zip(sets, outputs, strict=True))
    for examples, each in reported:
        if examples.split == "predict":
            task.write_predictions(folder, examples, each)
    from albert_tf.finetuning.run_report import write_report  # loads Matplotlib

    write_report(options, task, sets, reported)
