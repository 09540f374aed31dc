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
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.hub_files import with_local_files
from albert_tf.finetuning.run_comparison import (
    checkpoint_of,
    compare_runs,
    data_key,
    finish,
    finished_record,
)
from albert_tf.finetuning.single_run import FineTuningRun, RunContext
from albert_tf.finetuning.sources import (
    companion_files,
    find_config,
    find_tokenizer,
    with_hub_module,
)
from albert_tf.finetuning.task import ExampleSet, FineTuningTask
from albert_tf.finetuning.trained_settings import with_trained_settings
from albert_tf.finetuning.unknown_tokens import unknown_tokens
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.evaluation import BestCheckpoint
from albert_tf.training.initial_weights import with_local_weights
from albert_tf.training.model_config import check_trained_folder
from albert_tf.training.run import (
    micro_batches,
    prepare,
    training_folder,
    write_description,
)

logger = logging.getLogger(__name__)

# What programs write to `output_dir`, besides checkpoints and what describes the model.
_RESULTS = re.compile(
    r"(predictions|nbest_predictions|null_odds|test_results|eval_results|checkpoint_scores|grid|"
    r"metrics|evaluations|seeds|finished|report|predict_results)\b.*"
)


def fine_tune(
    options: FineTuningOptions, create_task: Callable[[Any, Tokenizer], FineTuningTask]
) -> None:
    """Trains, evaluates and predicts as specified by the options; all results go to `output_dir`.

    Leaves checkpoints, `albert_config.json`, the vocabulary, the task's companion files,
    `metrics.jsonl` and TensorBoard events; with `do_eval` `eval_results.txt`; with `do_predict`
    the task's predictions; and with either a report. Several runs (`seeds`, `learning_rates`,
    `train_batch_sizes`) leave these in folders of their own, and a comparison.

    Args:
        options: of the program.
        create_task: the kind of task: a subclass of `FineTuningTask`.

    Raises:
        InputError: an argument or file is invalid.
    """
    options = with_trained_settings(options)
    options.check()
    check_trained_folder(options)
    _check_inputs(options)
    with _standard_output_for_predictions(options):
        options = with_local_weights(with_hub_module(with_local_files(options)))
        config = find_config(options)
        options = options.with_defaults(config.max_position_embeddings)
        tokenizer = find_tokenizer(options)
        config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
        task = create_task(options, tokenizer)
        if options.streams and not task.reads_standard_input:
            raise InputError(f"`predict_file`={STANDARD_STREAM}: this program reads files only")
        task.metric = find_metric(task)
        sets = read_sets(task)
        options = task.options
        train_examples = sum(len(each.examples) for each in sets if each.split == "train")
        variants = [variant.resolved(train_examples) for variant in options.variants()]
        config, engine = prepare(options.resolved(train_examples), config)
        if not options.do_train and options.metric_for_best is None:
            recorded = BestCheckpoint(engine, options.output_dir, task.metric).recorded()
            if recorded and recorded.metric in task.metric_names:
                task.metric = recorded.metric
        engine.per_replica("predict_batch_size", options.predict_batch_size)
        for variant in variants:
            micro_batches(variant, engine)
        if engine.workers.count > 1 and (len(variants) > 1 or options.streams):
            raise InputError(
                "`strategy`=multi_worker: several runs, and predictions of standard input, need a "
                "single machine"
            )
        context = RunContext(task, sets, config, engine, companion_files(tokenizer))
        with training_folder(options, engine):
            if len(variants) > 1:
                run = _run_all(options, variants, context)
            else:
                run = _train_and_choose(variants[0], context)
            run.finish(options)


def _check_inputs(options: FineTuningOptions) -> None:
    """Raises InputError if a file to be read is one that the results would replace."""
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


def find_metric(task: FineTuningTask) -> str:
    """The result by which checkpoints and runs are compared.

    Raises:
        InputError: `metric_for_best` is not one of the task's.
    """
    chosen = task.options.metric_for_best
    if chosen is None:
        return task.metric
    if chosen not in task.metric_names:
        raise InputError(
            f"`metric_for_best`={chosen}: must be one of {', '.join(task.metric_names)}"
        )
    return chosen


def read_sets(task: FineTuningTask) -> list[ExampleSet]:
    """Reads and encodes every split that the task's options ask for, and reports the sizes."""
    read = {split: task.read(split) for split in task.options.splits()}
    sets = [
        ExampleSet(split, name, examples, task.encode(split, examples))
        for split, by_name in read.items()
        for name, examples in by_name.items()
    ]
    for each in sets:
        truncated = each.features.tokens_cut
        note = ""
        if count := int((truncated > 0).sum()):
            note = (
                f"; {count:,} truncated to {task.options.max_seq_length} tokens "
                f"({truncated.sum():,} tokens dropped)"
            )
        title = f"{each.split} {each.name}".strip()
        logger.info("%s: %s examples%s", title, f"{len(each.features):,}", note)
        if unknown := unknown_tokens(task, each):
            logger.info("%s: %s", title, unknown)
    return sets


@contextlib.contextmanager
def _standard_output_for_predictions(options: FineTuningOptions) -> Iterator[None]:
    """Sends messages to standard error while predictions go to standard output."""
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
    """Trains and evaluates every variant that is not finished yet, and compares them.

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
