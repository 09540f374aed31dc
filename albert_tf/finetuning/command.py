"""From flags to runs, in the order of what happens; loads a framework only once all is checked.

    main = fine_tuning_command(KIND)

Without a command, call `fine_tune(options, MyTask)`.
"""

import contextlib
import dataclasses
import functools
import glob
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from albert_tf.engines.early_failures import tell_others, told_to_others
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, make_folder, matches
from albert_tf.finetuning.finetuning_options import (
    ENSEMBLE_FILE,
    FOLD_ROWS_FILE,
    SEEDS_FILE,
    STANDARD_STREAM,
    FineTuningOptions,
    Options,
    TaughtOptions,
)
from albert_tf.finetuning.trained_settings import inherit, with_trained_settings
from albert_tf.hub.huggingface import PREFIX
from albert_tf.hub.names import may_be_published
from albert_tf.interop.file_names import BEST_FOLDER
from albert_tf.options import command
from albert_tf.task_kinds import TaskKind
from albert_tf.training.folder import check_model, check_trained_folder, is_trained

# Use of a folder -> the file that only it leaves there, or "" for checkpoints; what asks for it.
_USES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a cross-validation": (FOLD_ROWS_FILE, lambda options: getattr(options, "folds", None)),
    "an ensemble": (ENSEMBLE_FILE, lambda options: options.ensemble),
    "several runs": (SEEDS_FILE, lambda options: len(options.variants()) > 1),
    "a single model": ("", lambda options: options.do_train),
}

# What may be a name of published weights, which looks like a relative path.
_WEIGHTS = ("init_checkpoint", "spm_model_file", "vocab_file", "teacher")

# What `ensemble` leaves no choice of.
_NOT_OF_ENSEMBLES = (
    *("seeds", "learning_rates", "train_batch_sizes"),
    *("init_checkpoint", "albert_hub_module_handle", "albert_config_file"),
    *("spm_model_file", "vocab_file"),
)

# What programs write to `output_dir`, besides checkpoints and what describes the model.
_RESULTS = re.compile(
    r"(predictions|nbest_predictions|null_odds|test_results|eval_results|checkpoint_scores|grid|"
    r"ensemble|folds|metrics|evaluations|seeds|finished|report|predict_results)\b.*"
)


def fine_tuning_command(kind: TaskKind) -> Callable[[], None]:
    """Return the console entry point of a kind of task."""
    options_class, run = kind.load("options"), functools.partial(run_kind, kind)
    return command(
        options_class, run, original=options_class.original, keeps_memory=True, failed=tell_others
    )


def run_kind(kind: TaskKind, options: FineTuningOptions) -> None:
    """Fine-tune on a task of this kind."""
    select_engine(options.engine)
    check_early(options, kind.check_data)
    with quiet_import():
        load_keras()
        import albert_tf.finetuning.runs  # noqa: F401 (which fine_tune_checked needs)

        task = kind.load("task")
    fine_tune_checked(options, task)


def fine_tune(options: FineTuningOptions, create_task: Callable[..., Any]) -> None:
    """Train, evaluate and predict with a subclass of `FineTuningTask`, as the options specify.

    Leaves in `output_dir` checkpoints, `albert_config.json`, the vocabulary, the task's own files,
    `metrics.jsonl` and TensorBoard events; with `do_eval` `eval_results.txt`; with `do_predict`
    the task's predictions; and with either a report. Several runs (`seeds`, `learning_rates`,
    `train_batch_sizes`) leave these in folders of their own, and a comparison; so do `folds`,
    with the results of all rows. An `ensemble` leaves those of the mean of its models.

    Raises:
        InputError: If an argument or file is invalid.
    """
    with told_to_others(options):
        check_early(options)
        fine_tune_checked(options, create_task)


def fine_tune_checked(options: FineTuningOptions, create_task: Callable[..., Any]) -> None:
    """As `fine_tune`, after `check_early`, which commands call before they load a framework."""
    from albert_tf.finetuning.context import convert_weights, open_context
    from albert_tf.finetuning.runs import cross_validate, evaluate_ensemble, run_variants
    from albert_tf.finetuning.single_run import FineTuningRun
    from albert_tf.finetuning.teacher import Teacher
    from albert_tf.training.run import micro_batches, training_folder

    if options.ensemble:
        _check_inputs(options)
        evaluate_ensemble(options, member_options(options), create_task)
        return
    if _evaluates_weights(options):
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


def check_early(options: FineTuningOptions, check_data: Callable[[Any], Any] | None = None) -> None:
    """Check the options, the config, whether the files exist, and by `check_data` the data set.

    Raises:
        InputError: If an option is invalid, or a file or folder is missing.
    """
    if options.ensemble:
        _check_ensemble(options)
        options.check()
        _check_use(options)
        for member in member_options(options):
            with arguments_renamed(output_dir="ensemble"):
                check_early(member, check_data)
        return
    options = inherit(options)
    options.check()
    options = options.with_local_files()
    _check_use(options)
    if not options.albert_hub_module_handle and not _evaluates_weights(options):
        check_model(options)
    for name, path in options.input_files().items():
        if not path or path.startswith(PREFIX) or (name in _WEIGHTS and may_be_published(path)):
            continue
        # A checkpoint of TensorFlow is a prefix of names.
        if not exists(path) and not exists(f"{path}.index"):
            raise InputError(f"`{name}`={path}: no such file or folder")
    if check_data:
        check_data(options)


def _check_ensemble(options: FineTuningOptions) -> None:
    if options.do_train:
        raise InputError(
            "`do_train`: cannot be combined with `ensemble`, whose models are trained before; "
            "set `do_train`=false"
        )
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    for name in _NOT_OF_ENSEMBLES:
        if getattr(options, name) != defaults[name]:
            raise InputError(
                f"`{name}`: cannot be combined with `ensemble`, whose models are trained, and "
                "have configs and vocabularies of their own"
            )
    if options.streams:
        raise InputError("`predict_file`=-: an ensemble reads files only")
    if options.eval_checkpoints == "all":
        raise InputError(
            "`eval_checkpoints`=all: writes to the folders of the models, which `ensemble` "
            "only reads"
        )


def _check_use(options: FineTuningOptions) -> None:
    """Raise InputError if results of another kind of run in `output_dir` would mix with these."""
    folder, asked, used = options.output_dir, "", ""
    for use, (file, asks) in reversed(_USES.items()):
        asked = use if asks(options) else asked
        used = use if (exists(f"{folder}/{file}") if file else is_trained(folder)) else used
    if asked and used and asked != used:
        raise InputError(
            f"`output_dir`={folder}: contains {used}, whose results those of {asked} would "
            "replace in part; name another folder"
        )


def _evaluates_weights(options: FineTuningOptions) -> bool:
    """Return whether `init_checkpoint` itself is to be evaluated, or to predict."""
    return bool(options.init_checkpoint) and not (
        options.do_train or options.ensemble or is_trained(options.output_dir)
    )


def member_options(options: Options) -> list[Options]:
    """Return the options with which each model of an ensemble evaluates and predicts alone.

    Raises:
        InputError: If `ensemble` does not name at least two folders with trained models.
    """
    folders = list(dict.fromkeys(each for name in options.ensemble for each in _trained(name)))
    if len(folders) < 2:
        raise InputError(
            f"`ensemble`={','.join(options.ensemble)}: an ensemble needs at least two models, "
            f"this is {', '.join(folders)}"
        )
    return [dataclasses.replace(options, ensemble=(), output_dir=folder) for folder in folders]


def _trained(name: str) -> list[str]:
    """Return the folder of that name, or those that a glob matches."""
    if is_trained(name):
        return [name]
    # Next to several runs, `best` is a copy of one of them.
    found = [path for path in matches(name) if os.path.basename(path) != BEST_FOLDER]
    folders = [path for path in found if is_trained(path)] if glob.has_magic(name) else []
    if not folders:
        verb = " matches" if glob.has_magic(name) else ""
        raise InputError(f"`ensemble`={name}: no folder with a trained model{verb}")
    return folders


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
