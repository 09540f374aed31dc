"""The model and vocabulary that fine-tuning starts from, found from flags and folders."""

from __future__ import annotations

import dataclasses
import json
import os

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, is_folder, open_file
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.interop.companions import Companions, find_companions, resolve_lower_case
from albert_tf.interop.formats import open_weights
from albert_tf.interop.layout import encoder_folder
from albert_tf.tokenizers import Tokenizer

# What the original's flags of vocabularies say for the one inside the module.
FROM_HUB = "from_tf_hub"

TOKENIZER_FILE = "tokenizer_config.json"


def with_hub_module(options: FineTuningOptions) -> FineTuningOptions:
    """The options with `--albert_hub_module_handle` as the weights to start from.

    Raises:
        InputError: it is no local folder, or contradicts `--init_checkpoint`.
    """
    handle = options.albert_hub_module_handle
    if not handle:
        for flag in ("spm_model_file", "vocab_file"):
            if getattr(options, flag) == FROM_HUB:
                raise InputError(f"--{flag}={FROM_HUB}: --albert_hub_module_handle is needed too")
        return options
    if options.init_checkpoint:
        raise InputError(
            f"--albert_hub_module_handle={handle}: give this or "
            f"--init_checkpoint={options.init_checkpoint}, not both"
        )
    if not is_folder(handle):
        where = "download the module first and name its folder" if "://" in handle else "no folder"
        raise InputError(f"--albert_hub_module_handle={handle}: {where}")
    return dataclasses.replace(options, init_checkpoint=encoder_folder(handle))


def find_config(options: FineTuningOptions) -> AlbertConfig:
    """The model's config, with `--albert_dropout` in it.

    From `--albert_config_file`, else `--output_dir`, else what stands beside `--init_checkpoint`.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    config = _config_of(options)
    rate = options.albert_dropout
    if rate is None:
        return config
    return dataclasses.replace(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)


def _config_of(options: FineTuningOptions) -> AlbertConfig:
    if options.albert_config_file:
        return AlbertConfig.from_json_file(options.albert_config_file)
    there = f"{options.output_dir}/{CONFIG_FILE}"
    if exists(there):
        return AlbertConfig.from_json_file(there)
    if options.init_checkpoint:
        with arguments_renamed(path="init_checkpoint"):
            config = open_weights(options.init_checkpoint).config
        if config:
            return config
        raise InputError(
            f"--albert_config_file: needed, since there is no {CONFIG_FILE} beside "
            f"{options.init_checkpoint}"
        )
    if not options.do_train:
        raise InputError(f"--output_dir={options.output_dir}: holds no trained model")
    raise InputError("--albert_config_file: the model's albert_config.json is needed")


def find_tokenizer(options: FineTuningOptions) -> Tokenizer:
    """The tokenizer of the model.

    Its vocabulary is that of `--spm_model_file`, else of `--vocab_file`, else what stands in
    `--output_dir`, else beside `--init_checkpoint`.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    # The output folder may not be there yet; of a file, the folder around it is looked at.
    places = [options.output_dir] if is_folder(options.output_dir) else []
    places += [options.init_checkpoint] if options.init_checkpoint else []
    companions = [find_companions(path) for path in places]
    path = _vocabulary_of(options, companions)
    return Tokenizer.load(path, resolve_lower_case(options.do_lower_case, *companions))


def _vocabulary_of(options: FineTuningOptions, companions: list[Companions]) -> str:
    for named in (options.spm_model_file, options.vocab_file):
        if named and named != FROM_HUB:
            return named
    hub_only = FROM_HUB in (options.spm_model_file, options.vocab_file)
    for found in companions[-1:] if hub_only else companions:
        if found.vocabulary:
            return found.vocabulary
    if options.albert_hub_module_handle:
        raise InputError(
            f"--albert_hub_module_handle={options.albert_hub_module_handle}: holds no vocabulary; "
            "name one with --spm_model_file"
        )
    raise InputError(
        "--spm_model_file: the vocabulary of the model is needed; there is none in --output_dir"
        + (f" or beside {options.init_checkpoint}" if options.init_checkpoint else "")
    )


def companion_files(tokenizer: Tokenizer) -> dict[str, str | bytes]:
    """What is to stand in the folder of a fine-tuned model, so that it is enough to predict.

    Returns:
        File name -> content.
    """
    name = os.path.basename(tokenizer.path)
    with open_file(tokenizer.path, "rb") as file:
        vocabulary = file.read()
    return {
        name if name.endswith(".model") else "vocab.txt": vocabulary,
        TOKENIZER_FILE: json.dumps({"do_lower_case": tokenizer.do_lower_case}) + "\n",
    }
