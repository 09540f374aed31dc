"""Cross-validation: every training row is scored by a model that was trained without it."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_json, write_text
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.run_comparison import aligned, data_key, to_tsv
from albert_tf.finetuning.single_run import FineTuningRun, RunContext
from albert_tf.finetuning.task import ExampleSet, Fold, Outputs
from albert_tf.finetuning.teacher import taught_set
from albert_tf.interop.adjacent_files import EVALUATION_DATA_FILE
from albert_tf.report.sections import Section, Table
from albert_tf.training.run import write_results

logger = logging.getLogger(__name__)

# A row per fold; and what the folds were trained on.
TABLE_FILE = "folds.tsv"
ROWS_FILE = "folds.json"


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
    contexts = [_context_of(context, train, fold) for fold in folds]
    _check_rows(folder, [data_key(each.sets) for each in contexts])
    table: list[dict[str, Any]] = []
    outputs: list[Outputs] = []
    for number, each in enumerate(contexts, start=1):
        variant = dataclasses.replace(options, output_dir=f"{folder}/fold-{number}")
        variant = variant.resolved(each.epoch_size)
        logger.info("fold %d of %d: %s", number, len(folds), variant.output_dir)
        variant.check_steps()
        make_folder(variant.output_dir, "output_dir")
        run = FineTuningRun(variant, each)
        run.train()
        run.choose_checkpoint()
        run.write_results()
        table.append({"fold": number, "rows": each.count("eval"), **run.evaluation.results})
        outputs += run.evaluation.outputs
        del run
        keras.backend.clear_session()  # or the graphs of all models stay in memory
        gc.collect()
    write_text(f"{folder}/{TABLE_FILE}", to_tsv(table))
    logger.info("%s", aligned(table))

    rows = dataclasses.replace(train, split="eval")
    order = np.argsort(np.concatenate([held_out for _, held_out in folds]))
    joined = {n: np.concatenate([each[n] for each in outputs])[order] for n in outputs[0]}
    whole = context._replace(sets=[rows])
    for name, content in task.adjacent_files().items():
        write_text(f"{folder}/{name}", content)
    write_text(f"{folder}/{EVALUATION_DATA_FILE}", whole.evaluation_data)
    write_results(context.engine, folder, {**task.score(rows, joined), "folds": len(folds)})
    task.write_predictions(folder, rows, joined)
    from albert_tf.finetuning.run_report import write_report  # loads Matplotlib

    cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in r.values()] for r in table]
    columns = list(table[0])
    section = Section(
        "Folds",
        "Every row was predicted by the model of its fold, which was trained on the other folds.",
        tables=[Table(columns, cells, frozenset(range(len(columns))))],
    )
    reported = write_report(options, task, [rows], [(rows, joined)], [section])
    score = reported[task.metric]
    logger.info(
        "%s: %s of all %d rows; 95%% interval %s",
        *(task.metric, score.value, len(rows.examples)),
        f"{score.interval} ({score.method})" if score.interval else "unknown",
    )


def _context_of(context: RunContext, train: ExampleSet, fold: Fold) -> RunContext:
    """Return what a run on a fold has instead."""
    sets = []
    for split, numbers in zip(("train", "eval"), fold, strict=True):
        examples = [train.examples[number] for number in numbers]
        sets.append(ExampleSet(split, "", examples, context.task.encode(split, examples)))
    if train.taught:
        taught = [train.taught[number] for number in fold[0]]
        sets[0] = taught_set(context.task, sets[0], taught)
    return context._replace(sets=sets)


def _check_rows(folder: str, keys: list[str]) -> None:
    """Record what the folds are trained on; a model of other rows may have seen its fold."""
    path = f"{folder}/{ROWS_FILE}"
    if exists(path) and read_json(path, list[str]) != keys:
        raise InputError(
            f"`output_dir`={folder}: contains folds of other rows, or of other tokens; name "
            "another folder"
        )
    write_text(path, json.dumps(keys, indent=2) + "\n")
