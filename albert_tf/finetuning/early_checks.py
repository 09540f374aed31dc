"""Errors that need neither a framework nor the data, so that they appear at once."""

import dataclasses
import glob
import os
from collections.abc import Callable
from typing import Any

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, matches
from albert_tf.finetuning.finetuning_options import (
    ENSEMBLE_FILE,
    FOLD_ROWS_FILE,
    SEEDS_FILE,
    FineTuningOptions,
    Options,
)
from albert_tf.finetuning.trained_settings import inherit
from albert_tf.hub.huggingface import PREFIX
from albert_tf.hub.names import may_be_published
from albert_tf.interop.file_names import BEST_FOLDER
from albert_tf.training.folder import check_model, is_trained

# Use of a folder -> the file that only it leaves there, or "" for checkpoints; what asks for it.
_USES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a cross-validation": (FOLD_ROWS_FILE, lambda options: getattr(options, "folds", None)),
    "an ensemble": (ENSEMBLE_FILE, lambda options: options.ensemble),
    "several runs": (SEEDS_FILE, lambda options: len(options.variants()) > 1),
    "a single model": ("", lambda options: options.do_train),
}

# What may be a name of published weights, which looks like a relative path.
_WEIGHTS = ("init_checkpoint", "spm_model_file", "vocab_file", "teacher")


def check_early(options: FineTuningOptions, check_data: Callable[[Any], Any] | None = None) -> None:
    """Check the options, the config, and whether the files exist.

    Args:
        options: of the program.
        check_data: raises InputError if the data set that the options name is invalid.

    Raises:
        InputError: If an option is invalid, or a file or folder is missing.
    """
    if options.ensemble:
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
    if not options.albert_hub_module_handle and not evaluates_weights(options):
        check_model(options)
    for name, path in options.input_files().items():
        if not path or path.startswith(PREFIX) or (name in _WEIGHTS and may_be_published(path)):
            continue
        # A checkpoint of TensorFlow is a prefix of names.
        if not exists(path) and not exists(f"{path}.index"):
            raise InputError(f"`{name}`={path}: no such file or folder")
    if check_data:
        check_data(options)


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


def evaluates_weights(options: FineTuningOptions) -> bool:
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
