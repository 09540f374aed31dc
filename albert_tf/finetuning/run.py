"""Fine-tuning on any kind of task: train, evaluate, predict, report."""

import contextlib
import dataclasses
import itertools
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from albert_tf.engines.base import Engine
from albert_tf.engines.early_failures import told_to_others
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, make_folder, read_bytes
from albert_tf.finetuning.early_checks import check_early, evaluates_weights, member_options
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.runs import (
    Run,
    check_alike,
    cross_validate,
    evaluate_ensemble,
    run_variants,
)
from albert_tf.finetuning.single_run import FineTuningRun, RunContext
from albert_tf.finetuning.sources import (
    adjacent_files,
    convert_weights,
    find_config,
    find_tokenizer,
    with_hub_module,
)
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, data_key
from albert_tf.finetuning.teacher import Teacher
from albert_tf.finetuning.teacher_options import TaughtOptions
from albert_tf.finetuning.trained_settings import with_trained_settings
from albert_tf.logs import counted
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import NOTABLE_SHARE, UnknownCharacters, describe_unknown
from albert_tf.training.evaluation import BestCheckpoint
from albert_tf.training.folder import check_trained_folder
from albert_tf.training.restoring import with_local_weights
from albert_tf.training.run import micro_batches, prepare, training_folder

logger = logging.getLogger(__name__)

# What programs write to `output_dir`, besides checkpoints and what describes the model.
_RESULTS = re.compile(
    r"(predictions|nbest_predictions|null_odds|test_results|eval_results|checkpoint_scores|grid|"
    r"ensemble|folds|metrics|evaluations|seeds|finished|report|predict_results)\b.*"
)

# In which unknown characters are looked for, and of which unknown tokens are measured; each takes
# at most about a second.
_MOST_TEXTS, _MOST_MEASURED = 20_000, 2_000

CreateTask: TypeAlias = Callable[[Any, Tokenizer], FineTuningTask]


def fine_tune(options: FineTuningOptions, create_task: CreateTask) -> None:
    """Train, evaluate and predict as specified by the options; all results go to `output_dir`.

    Leaves checkpoints, `albert_config.json`, the vocabulary, the task's own files,
    `metrics.jsonl` and TensorBoard events; with `do_eval` `eval_results.txt`; with `do_predict`
    the task's predictions; and with either a report. Several runs (`seeds`, `learning_rates`,
    `train_batch_sizes`) leave these in folders of their own, and a comparison. An `ensemble` is
    evaluated and predicts as `evaluate_ensemble` describes, and `folds` as `cross_validate`.

    Args:
        options: of the program.
        create_task: the kind of task: a subclass of `FineTuningTask`.

    Raises:
        InputError: If an argument or file is invalid.
    """
    with told_to_others(options):
        check_early(options)
        fine_tune_checked(options, create_task)


def fine_tune_checked(options: FineTuningOptions, create_task: CreateTask) -> None:
    """As `fine_tune`, after `check_early`, which commands call before they load a framework."""
    if options.ensemble:
        _check_inputs(options)
        evaluate_ensemble(options, _open_members(options, create_task))
        return
    if evaluates_weights(options):
        convert_weights(options)
    options = with_trained_settings(options)
    check_trained_folder(options)
    _check_inputs(options)
    answers_input = options.streams and options.predict_output == STANDARD_STREAM
    with contextlib.redirect_stdout(sys.stderr) if answers_input else contextlib.nullcontext():
        options, context = open_context(options, create_task)
        runs = [(each.resolved(context.epoch_size), context) for each in options.variants()]
        for each, _ in runs:
            each.check_steps()
            micro_batches(each, context.engine)
        train = context.of_split("train")
        folds = context.task.folds(train[0].examples) if train else ()
        if context.engine.workers.count > 1 and (len(runs) > 1 or folds or options.streams):
            raise InputError(
                "`strategy`=multi_worker: several runs, and predictions of standard input, need a "
                "single machine"
            )
        teacher = None
        if isinstance(options, TaughtOptions) and options.taught:
            teacher = Teacher(options, context)
        with training_folder(options, context.engine):
            if teacher:
                context = teacher.teach()
                runs = [(each, context) for each, _ in runs]
            if folds:
                cross_validate(options, context, folds)
            elif len(runs) > 1:
                run_variants(options, runs).finish(options)
            else:
                FineTuningRun(*runs[0]).start().finish(options)


def open_context(
    options: FineTuningOptions, create_task: CreateTask, engine: Engine | None = None
) -> Run:
    """Read all that a run needs, and fetch what is not here; write nothing.

    Args:
        options: of the program, checked.
        create_task: the kind of task.
        engine: of an earlier model in this process; None to create it.

    Returns:
        The options, completed by the task, and what the runs share.

    Raises:
        InputError: If an argument or file is invalid.
    """
    options = with_local_weights(with_hub_module(options.with_local_files()))
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
    epoch_size = sum(task.epoch_size(each) for each in sets if each.split == "train")
    inputs = {
        f"{each.split} {each.name}".strip(): {
            "examples": len(each.examples),
            "checksum of tokens": zlib.crc32(each.features.ids.tobytes()),
            "checksum of tokens and labels to train or evaluate on": data_key([each]),
        }
        for each in sets
    }
    inputs = {"vocabulary": {"checksum": zlib.crc32(read_bytes(tokenizer.path))}, **inputs}
    config, engine = prepare(options.resolved(epoch_size), config, engine, inputs)
    check_batches(options, engine)
    if not options.do_train and options.metric_for_best is None:
        recorded = BestCheckpoint(engine, options.output_dir, task.metric).recorded()
        if recorded and recorded.metric in task.metric_names:
            task.metric = recorded.metric
    engine.devices.per_replica("predict_batch_size", options.predict_batch_size)
    return options, RunContext(task, sets, config, engine, adjacent_files(tokenizer))


def check_batches(options: FineTuningOptions, engine: Engine) -> None:
    """Raise InputError if another machine, without Python, would have to order the examples."""
    if options.do_train and not engine.devices.makes_batches_locally:
        raise InputError(
            "`do_train`=True: the batches of fine-tuning are made by this process, not on the "
            "hosts of a TPU that is reached by name; run on the TPU VM with `tpu`=local"
        )


def find_metric(task: FineTuningTask) -> str:
    """Return the result by which checkpoints and runs are compared.

    Raises:
        InputError: If `metric_for_best` is not one of the task's.
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
    """Read and encode every split that the task's options ask for, and report the sizes."""
    read = {split: task.read(split) for split in task.options.splits()}
    sets = [
        ExampleSet(split, name, examples, task.encode(split, examples))
        for split, by_name in read.items()
        for name, examples in by_name.items()
    ]
    for each in sets:
        features, length, note = each.features, task.options.max_seq_length, ""
        if count := int((features.tokens_cut > 0).sum()):
            note = (
                f"; {count:,} ({count / len(features):.1%}) truncated to {length} tokens "
                f"({counted(features.tokens_cut.sum(), 'token')} dropped)"
            )
        elif count := features.texts_split:
            note = (
                f"; {count:,} ({count / len(each.examples):.1%}) longer than {length} tokens, so "
                f"that there are {counted(len(features), 'window')}"
            )
        title = f"{each.split} {each.name}".strip()
        logger.info("%s: %s%s", title, counted(len(each.examples), "example"), note)
        if unknown := _unknown_tokens(task, each):
            logger.info("%s: %s", title, unknown)
    return sets


def _unknown_tokens(task: FineTuningTask, examples: ExampleSet) -> str:
    """Return a line on the unknown tokens of a set; "" if they are fewer than `NOTABLE_SHARE`."""
    tokenizer, ids = task.tokenizer, examples.features.ids
    unknown = int((ids == tokenizer.unk_id).sum())
    tokens = int((~np.isin(ids, (tokenizer.cls_id, tokenizer.sep_id))).sum())
    if not unknown or unknown < NOTABLE_SHARE * tokens:
        return ""
    texts = list(itertools.islice(task.texts(examples.examples), _MOST_TEXTS))
    characters, sample = UnknownCharacters(tokenizer), texts[:_MOST_MEASURED]
    lost = characters.in_unknown_tokens(sample)[1] / max(sum(map(len, sample)), 1)
    return describe_unknown(unknown, tokens, characters.count(texts), lost)


def _open_members(options: FineTuningOptions, create_task: CreateTask) -> list[Run]:
    """Open the models of an ensemble.

    Raises:
        InputError: If an argument or file is invalid, or the models do not fit together.
    """
    members: list[Run] = []
    for member in member_options(options):
        logger.info("model %d: %s", len(members) + 1, member.output_dir)
        engine = members[0][1].engine if members else None
        with arguments_renamed(output_dir="ensemble"):
            members.append(open_context(with_trained_settings(member), create_task, engine))
        check_alike(members[0], members[-1])
    return members


def _check_inputs(options: FineTuningOptions) -> None:
    """Raise InputError if results would replace a file to be read, or cannot be written."""
    writes = options.do_train or (options.do_predict and not options.streams)
    if writes and exists(options.output_dir):
        make_folder(options.output_dir, "output_dir")
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
