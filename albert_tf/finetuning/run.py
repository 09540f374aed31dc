"""Fine-tuning on any kind of task: train, evaluate, predict, report."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras

from albert_tf.errors import InputError
from albert_tf.files import make_folder
from albert_tf.finetuning.early_checks import check_early
from albert_tf.finetuning.ensemble import evaluate_ensemble
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.opening import open_context
from albert_tf.finetuning.run_comparison import (
    checkpoint_of,
    compare_runs,
    data_key,
    finish,
    finished_record,
)
from albert_tf.finetuning.single_run import FineTuningRun, RunContext
from albert_tf.finetuning.task import FineTuningTask
from albert_tf.finetuning.trained_settings import with_trained_settings
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.model_config import check_trained_folder
from albert_tf.training.run import (
    micro_batches,
    training_folder,
    write_description,
)

logger = logging.getLogger(__name__)

# What programs write to `output_dir`, besides checkpoints and what describes the model.
_RESULTS = re.compile(
    r"(predictions|nbest_predictions|null_odds|test_results|eval_results|checkpoint_scores|grid|"
    r"ensemble|metrics|evaluations|seeds|finished|report|predict_results)\b.*"
)


def fine_tune(
    options: FineTuningOptions, create_task: Callable[[Any, Tokenizer], FineTuningTask]
) -> None:
    """Train, evaluate and predict as specified by the options; all results go to `output_dir`.

    Leaves checkpoints, `albert_config.json`, the vocabulary, the task's own files,
    `metrics.jsonl` and TensorBoard events; with `do_eval` `eval_results.txt`; with `do_predict`
    the task's predictions; and with either a report. Several runs (`seeds`, `learning_rates`,
    `train_batch_sizes`) leave these in folders of their own, and a comparison. An `ensemble` is
    evaluated and predicts as `evaluate_ensemble` describes.

    Args:
        options: of the program.
        create_task: the kind of task: a subclass of `FineTuningTask`.

    Raises:
        InputError: If an argument or file is invalid.
    """
    check_early(options)
    fine_tune_checked(options, create_task)


def fine_tune_checked(
    options: FineTuningOptions, create_task: Callable[[Any, Tokenizer], FineTuningTask]
) -> None:
    """As `fine_tune`, after `check_early`, which commands call before they load a framework."""
    if options.ensemble:
        _check_inputs(options)
        evaluate_ensemble(options, create_task)
        return
    options = with_trained_settings(options)
    check_trained_folder(options)
    _check_inputs(options)
    with _standard_output_for_predictions(options):
        options, context = open_context(options, create_task)
        engine, train_examples = context.engine, context.count("train")
        variants = [variant.resolved(train_examples) for variant in options.variants()]
        for variant in variants:
            variant.check_steps()
            micro_batches(variant, engine)
        if engine.workers.count > 1 and (len(variants) > 1 or options.streams):
            raise InputError(
                "`strategy`=multi_worker: several runs, and predictions of standard input, need a "
                "single machine"
            )
        with training_folder(options, engine):
            if len(variants) > 1:
                run = _run_all(options, variants, context)
            else:
                run = _train_and_choose(variants[0], context)
            run.finish(options)


def _check_inputs(options: FineTuningOptions) -> None:
    """Raise InputError if a file to be read is one that the results would replace."""
    for field in dataclasses.fields(options):
        path = getattr(options, field.name)
        if not field.name.endswith("_file") or not path or path == STANDARD_STREAM:
            continue
        folder, name = os.path.split(os.path.realpath(path))
        if folder == os.path.realpath(options.output_dir) and _RESULTS.fullmatch(name):
            raise InputError(
                f"`{field.name}`={path}: is in `output_dir`, under a name of results, which would "
                "replace it; move it or choose another `output_dir`"
            )


@contextlib.contextmanager
def _standard_output_for_predictions(options: FineTuningOptions) -> Iterator[None]:
    """Send messages to standard error while predictions go to standard output."""
    if not (options.streams and options.predict_output == STANDARD_STREAM):
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _train_and_choose(options: FineTuningOptions, context: RunContext) -> FineTuningRun:
    run = FineTuningRun(options, context)
    run.train()
    run.choose_checkpoint()
    return run


def _run_all(
    options: FineTuningOptions, variants: list[FineTuningOptions], context: RunContext
) -> FineTuningRun:
    """Train and evaluate every variant that is not finished yet, and compare them.

    Returns:
        The best run as one in `output_dir`, with its checkpoint in `best/` there.
    """
    data, metric = data_key(context.sets), context.task.metric
    records = []
    for number, variant in enumerate(variants, start=1):
        logger.info("run %d of %d: %s", number, len(variants), variant.output_dir)
        record = finished_record(variant, data)
        if record is None:
            make_folder(variant.output_dir, "output_dir")
            run = _train_and_choose(variant, context)
            run.write_results()
            record = finish(variant, data, run.step, run.checkpoint, *run.evaluation[:2])
            del run
            keras.backend.clear_session()  # or the graphs of all runs stay in memory
            gc.collect()
        else:
            logger.info("already finished")
        records.append(record)
    best = compare_runs(options.output_dir, records, metric, options.seeds > 1)
    path = checkpoint_of(context.engine, variants[best], records[best])
    write_description(context.engine, options.output_dir, context.config, context.description)
    run = FineTuningRun(dataclasses.replace(variants[best], output_dir=options.output_dir), context)
    results = records[best]["results"]
    run.best.keep(path, results[metric], records[best]["step"], results)
    run.load_best()
    return run
