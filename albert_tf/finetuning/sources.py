"""Finds the config and the vocabulary of the model to fine-tune."""

import dataclasses
import logging
import os

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import is_folder, is_read_only, open_file, sha256_of
from albert_tf.finetuning.finetuning_options import FROM_HUB, FineTuningOptions
from albert_tf.hub.names import local_weights
from albert_tf.interop.adjacent_files import AdjacentFiles, find_adjacent_files, load_tokenizer
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.file_names import DATA_FILE, encoder_folder, folder_of
from albert_tf.interop.heads import possible_heads
from albert_tf.interop.loading import open_weights
from albert_tf.task_kinds import task_kinds
from albert_tf.tokenizers import Tokenizer, normalization
from albert_tf.training import folder

logger = logging.getLogger(__name__)


def with_hub_module(options: FineTuningOptions) -> FineTuningOptions:
    """Return the options with `albert_hub_module_handle` as the weights to start from.

    Raises:
        InputError: If it is no module, cannot be fetched, or contradicts `init_checkpoint`.
    """
    handle = options.albert_hub_module_handle
    if not handle:
        for name in ("spm_model_file", "vocab_file"):
            if getattr(options, name) == FROM_HUB:
                raise InputError(f"`{name}`={FROM_HUB}: needs `albert_hub_module_handle`")
        return options
    if options.init_checkpoint:
        raise InputError(
            f"`albert_hub_module_handle`={handle}: give either this or "
            f"`init_checkpoint`={options.init_checkpoint}, not both"
        )
    # The original's README writes `--albert_hub_module_handle==https://...`.
    name = handle.removeprefix("=")
    folder = local_weights(name, argument="albert_hub_module_handle")
    if is_read_only(folder) or not is_folder(folder):
        raise InputError(
            f"`albert_hub_module_handle`={handle}: neither a folder nor a handle such as "
            "https://tfhub.dev/google/albert_base/1"
        )
    return dataclasses.replace(options, init_checkpoint=encoder_folder(folder))


def convert_weights(options: FineTuningOptions) -> None:
    """Convert the weights of a fine-tuned model, `init_checkpoint`, to a trained `output_dir`.

    Raises:
        InputError: If they have no head of the task, `output_dir` exists, or there are several
            processes, all of which would write it.
    """
    if options.strategy == "multi_worker" or (options.num_processes or 1) > 1:
        raise InputError(
            f"`init_checkpoint`={options.init_checkpoint}: is evaluated without `do_train` by a "
            "single process only; convert it first: convert_checkpoint.py"
        )
    path = local_weights(options.init_checkpoint or "", argument="init_checkpoint")
    with arguments_renamed(path="init_checkpoint"):
        found = possible_heads(open_weights(path), folder_of(path))
    kinds = (kind for kind in task_kinds() if kind.settings_file == options.settings_file)
    of_task = [head for kind in kinds for head in kind.heads]
    heads = [head.name for head in of_task if head.name in found or not head.has_variables]
    if not heads:
        raise InputError(
            f"`init_checkpoint`={options.init_checkpoint}: has no head of this task, but of kind "
            f"{found[0]}; train one with `do_train`"
        )
    vocabularies = (options.spm_model_file, options.vocab_file)
    with arguments_renamed(input="init_checkpoint", output="output_dir"):
        convert(
            ConvertOptions(
                input=path,
                output=options.output_dir,
                to_format="jax" if options.engine == "jax" else "albert_tf",
                head=heads[0],
                spm_model_file=next((v for v in vocabularies if v and v != FROM_HUB), None),
                do_lower_case=options.do_lower_case,
            )
        )


def find_config(options: FineTuningOptions) -> AlbertConfig:
    """Return the model's config (see `folder.find_config`), with `albert_dropout` applied.

    Raises:
        InputError: If there is none, or it is invalid.
    """
    config = folder.find_config(options)
    rate = options.albert_dropout
    if rate is None:
        return config
    return dataclasses.replace(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)


def find_tokenizer(options: FineTuningOptions) -> Tokenizer:
    """Return the tokenizer of the model.

    Its vocabulary is `spm_model_file`, else `vocab_file`, else the one in `output_dir`, else the
    one next to `init_checkpoint`.

    Raises:
        InputError: If there is none, it is invalid, or the weights are of another one.
    """
    # The output folder may not exist yet; for a file, its folder is searched.
    places = [options.output_dir] if is_folder(options.output_dir) else []
    places += [options.init_checkpoint] if options.init_checkpoint else []
    adjacent = [find_adjacent_files(path) for path in places]
    path = _vocabulary_of(options, adjacent)
    with arguments_renamed(path="spm_model_file" if options.spm_model_file else "vocab_file"):
        tokenizer = load_tokenizer(path, options.do_lower_case, adjacent)
    for place, found in zip(places, adjacent, strict=True):
        # A folder without checkpoints is of a run that has saved nothing.
        if place == options.init_checkpoint or folder.is_trained(place):
            _check_tokenizer(options, tokenizer, place, found)
            break
    return tokenizer


def _check_tokenizer(
    options: FineTuningOptions, tokenizer: Tokenizer, model: str, trained: AdjacentFiles
) -> None:
    """Refuse a vocabulary whose ids do not mean what a model has learned; warn of another case."""
    known, before = trained.vocabulary_digests(), trained.vocabulary
    is_other = known and sha256_of(tokenizer.path) not in known
    # Files of other formats may have the same pieces.
    if is_other and not (before and Tokenizer.load(before).pieces == tokenizer.pieces):
        argument = "spm_model_file" if options.spm_model_file else "vocab_file"
        raise InputError(
            f"`{argument}`={tokenizer.path}: is not the vocabulary of the weights in {model} "
            f"({before or DATA_FILE}); use that one, or other weights"
        )
    given, lower = options.do_lower_case, trained.normalization.do_lower_case
    if None not in (given, lower) and given != lower:
        form = "do_lower_case=%s: the model in %s was trained with %s"
        logger.warning(form, given, model, lower)


def _vocabulary_of(options: FineTuningOptions, adjacent: list[AdjacentFiles]) -> str:
    for named in (options.spm_model_file, options.vocab_file):
        if named and named != FROM_HUB:
            return named
    hub_only = FROM_HUB in (options.spm_model_file, options.vocab_file)
    for found in adjacent[-1:] if hub_only else adjacent:
        if found.vocabulary:
            return found.vocabulary
    if options.albert_hub_module_handle:
        raise InputError(
            f"`albert_hub_module_handle`={options.albert_hub_module_handle}: contains no "
            "vocabulary; name one with `spm_model_file`"
        )
    raise InputError(
        "`spm_model_file`: the vocabulary of the model is required; there is none in `output_dir`"
        + (f" or next to {options.init_checkpoint}" if options.init_checkpoint else "")
    )


def adjacent_files(tokenizer: Tokenizer) -> dict[str, str | bytes]:
    """Return what a folder of a fine-tuned model needs, so that prediction needs nothing else.

    Returns:
        File name -> content.
    """
    name = os.path.basename(tokenizer.path)
    with open_file(tokenizer.path, "rb") as file:
        vocabulary = file.read()
    return {
        name if name.endswith(".model") else "vocab.txt": vocabulary,
        normalization.CONFIG_FILE: tokenizer.normalization.to_json(),
    }
