"""The trained folders that `ensemble` names; loads no framework."""

from __future__ import annotations

import dataclasses
import glob
import os

from albert_tf.errors import InputError
from albert_tf.files import matches
from albert_tf.finetuning.finetuning_options import Options
from albert_tf.interop.checkpoint_folders import engines_in
from albert_tf.interop.layout import BEST_FOLDER


def member_options(options: Options) -> list[Options]:
    """Return the options with which each model of an ensemble evaluates and predicts alone.

    Raises:
        InputError: If `ensemble` does not name at least two folders with trained models, or
            `output_dir` is one with a trained model.
    """
    folders = list(dict.fromkeys(each for name in options.ensemble for each in _folders(name)))
    if len(folders) < 2:
        raise InputError(
            f"`ensemble`={','.join(options.ensemble)}: an ensemble needs at least two models, "
            f"this is {', '.join(folders)}"
        )
    if _is_trained(options.output_dir):
        raise InputError(
            f"`output_dir`={options.output_dir}: contains a trained model, whose results those of "
            "the ensemble would replace; name another folder"
        )
    return [_alone(options, folder) for folder in folders]


def _alone(options: Options, folder: str) -> Options:
    return dataclasses.replace(options, ensemble=(), output_dir=folder)


def _folders(name: str) -> list[str]:
    """Return the trained folders that a name or a glob stands for."""
    if not glob.has_magic(name):
        if not _is_trained(name):
            raise InputError(f"`ensemble`={name}: no folder with a trained model")
        return [name.rstrip("/")]
    # Next to several runs, `best` is a copy of one of them.
    found = [path for path in matches(name) if os.path.basename(path) != BEST_FOLDER]
    folders = [path for path in found if _is_trained(path)]
    if not folders:
        raise InputError(f"`ensemble`={name}: no folder with a trained model matches")
    return folders


def _is_trained(folder: str) -> bool:
    return any(engines_in(each) for each in (folder, os.path.join(folder, BEST_FOLDER)))
