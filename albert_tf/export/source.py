"""What an export is made from: weights, config, vocabulary, and the kind of model."""

from __future__ import annotations

from typing import NamedTuple

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.export.export_options import ExportOptions
from albert_tf.interop.adjacent_files import AdjacentFiles, find_adjacent_files, load_tokenizer
from albert_tf.interop.file_names import folder_of
from albert_tf.interop.heads import HEADS, find_head, heads_like, possible_heads
from albert_tf.interop.loading import open_weights
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import Weights


class ExportSource(NamedTuple):
    """What an export is made from.

    Attributes:
        head: a key of `albert_tf.task_kinds.heads()`.
        weights: the weights in the checkpoint.
        config: config of the encoder.
        tokenizer: tokenizer of the model.
        adjacent: files next to the weights.
    """

    head: str
    weights: Weights
    config: AlbertConfig
    tokenizer: Tokenizer
    adjacent: AdjacentFiles


def open_source(options: ExportOptions) -> ExportSource:
    """Open what the options of an export name, without reading the values of the weights.

    Raises:
        InputError: If something is missing or does not fit together.
    """
    config = None
    if options.albert_config_file:
        config = AlbertConfig.from_json_file(options.albert_config_file)
    with arguments_renamed(path="init_checkpoint"):
        weights = open_weights(options.init_checkpoint, config=config)
    config = config or weights.config
    if config is None:
        raise InputError(
            f"`init_checkpoint`={options.init_checkpoint}: there is no {CONFIG_FILE} next to it; "
            "name one with `albert_config_file`"
        )
    adjacent = find_adjacent_files(options.init_checkpoint).about(weights.step)
    vocabulary = options.spm_model_file or adjacent.vocabulary
    if not vocabulary:
        raise InputError(
            "`spm_model_file`: required, as there is no vocabulary next to "
            f"{options.init_checkpoint}"
        )
    with arguments_renamed(path="spm_model_file"):
        tokenizer = load_tokenizer(vocabulary, options.do_lower_case, [adjacent])
    config.check_vocabulary(tokenizer.vocab_size, vocabulary)
    return ExportSource(choose_head(options, weights), weights, config, tokenizer, adjacent)


def choose_head(options: ExportOptions, weights: Weights) -> str:
    """Return the kind of model to export: the one that the options name, or that of the weights.

    Args:
        options: the options of the export.
        weights: the weights in `init_checkpoint`.

    Raises:
        InputError: If the weights lack the named head, or do not determine which head they have.
    """
    named = f"`init_checkpoint`={options.init_checkpoint}"
    if options.head != "auto":
        scope = HEADS[options.head].scope
        if not any(path.startswith(scope) for path in weights.tensors):
            found = weights.head or find_head(weights.tensors)
            raise InputError(f"`head`={options.head}: {named} has the head {found} instead")
        if options.head not in heads_like(options.head, weights):
            count = weights.tensors[f"{scope}output_bias"].shape[0]
            raise InputError(f"`head`={options.head}: {named} has {count} outputs instead of one")
        return options.head
    possible = possible_heads(weights, folder_of(options.init_checkpoint))
    if len(possible) > 1:
        choices = " or ".join(f"`head`={name}" for name in possible)
        raise InputError(
            f"`head`: {named} has a single score, and no file next to it records its meaning; use "
            f"{choices}"
        )
    return possible[0]
