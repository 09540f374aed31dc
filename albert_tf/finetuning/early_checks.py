"""Errors that need neither a framework nor the data, so that they appear at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.finetuning.ensemble_folders import member_options
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.trained_settings import inherit
from albert_tf.hub.huggingface import PREFIX
from albert_tf.hub.names import may_be_published
from albert_tf.training.model_config import check_model

# What may be a name of published weights, which looks like a relative path.
_WEIGHTS = ("init_checkpoint", "spm_model_file", "vocab_file")


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
        for member in member_options(options):
            with arguments_renamed(output_dir="ensemble"):
                check_early(member, check_data)
        return
    options = inherit(options)
    options.check()
    options = options.with_local_files()
    if not options.albert_hub_module_handle:
        check_model(options)
    for name, path in options.input_files().items():
        if not path or path.startswith(PREFIX) or (name in _WEIGHTS and may_be_published(path)):
            continue
        # A checkpoint of TensorFlow is a prefix of names.
        if not exists(path) and not exists(f"{path}.index"):
            raise InputError(f"`{name}`={path}: no such file or folder")
    if check_data:
        check_data(options)
