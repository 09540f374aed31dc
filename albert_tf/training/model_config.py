"""What is checked before a framework loads: the config of the model, folders and files."""

from __future__ import annotations

import os

from albert_tf.checkpoints.folder import engines_in
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.input.manifest import record_files
from albert_tf.interop.file_names import BEST_FOLDER
from albert_tf.training.options import PretrainingOptions, TrainingOptions


def named_config(options: TrainingOptions) -> AlbertConfig | None:
    """Return the config in `albert_config_file`, else in `output_dir`; None if there is neither.

    Raises:
        InputError: If it is invalid.
    """
    if options.albert_config_file:
        return AlbertConfig.from_json_file(options.albert_config_file)
    trained = os.path.join(options.output_dir, CONFIG_FILE)
    return AlbertConfig.from_json_file(trained) if exists(trained) else None


def find_config(options: TrainingOptions) -> AlbertConfig:
    """Return the config: `albert_config_file`, `output_dir`'s or `init_checkpoint`'s.

    Raises:
        InputError: If there is none, or it is invalid.
    """
    if config := named_config(options):
        return config
    if not options.init_checkpoint:
        raise _no_config(options)
    from albert_tf.interop.loading import open_weights

    with arguments_renamed(path="init_checkpoint"):
        config = open_weights(options.init_checkpoint).config
    if config is None:
        raise InputError(
            f"`albert_config_file`: required, because there is no {CONFIG_FILE} next to "
            f"{options.init_checkpoint}"
        )
    return config


def check_model(options: TrainingOptions) -> None:
    """Raise the errors of `find_config` that need no weights, and that of a folder without model.

    Raises:
        InputError: If the config is missing or invalid, or `output_dir` has no model to evaluate.
    """
    config = named_config(options)
    check_trained_folder(options)
    if config is None and not options.init_checkpoint:
        raise _no_config(options)


def is_trained(folder: str) -> bool:
    """Return whether a folder contains checkpoints, or its best one."""
    return any(engines_in(each) for each in (folder, os.path.join(folder, BEST_FOLDER)))


def check_trained_folder(options: TrainingOptions) -> None:
    """Raise InputError if there is neither training nor a trained model in `output_dir`."""
    if options.do_train or is_trained(options.output_dir):
        return
    raise InputError(
        f"`output_dir`={options.output_dir}: contains no trained model; without `do_train`, name "
        "the folder of one, or set `do_train` to train it first"
    )


def check_early(options: PretrainingOptions) -> None:
    """Check the options of pretraining, the config, and whether the files exist.

    Raises:
        InputError: If an option is invalid, or a file is missing.
    """
    options.check()
    check_model(options)
    for name in ("input_file", "eval_input_file") if options.do_train else ("eval_input_file",):
        if patterns := getattr(options, name):
            record_files(patterns, name)


def _no_config(options: TrainingOptions) -> InputError:
    return InputError(
        "`albert_config_file`: the model's albert_config.json is required, as there is none in "
        f"`output_dir`={options.output_dir}"
    )
