"""Builds exports for TF-Hub and for serving: SavedModels that load without this package.

`python -m albert_tf.export check DIR` checks one.
"""

import dataclasses
import hashlib
import logging
import os
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed, tensorflow_errors_as_os_errors
from albert_tf.export import tflite
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.exported_encoder import PRETRAINING_HEADS, ExportedEncoder
from albert_tf.export.graph_packing import PreprocessorExport
from albert_tf.export.graph_tokenizers import check_tokenizer, graph_tokenizer
from albert_tf.export.task_export import (
    TrainedModel,
    assets,
    create_exported_model,
    task_settings,
    write_task,
)
from albert_tf.files import exists, make_folder, replacing, sha256_of, to_json, value_of, write_text
from albert_tf.hub.names import local_weights, pinned_name
from albert_tf.interop import model_card
from albert_tf.interop.adjacent_files import described_checkpoint
from albert_tf.interop.converted_model import ConvertedModel
from albert_tf.interop.file_names import ENCODER, EXPORT_FILE, PREPROCESS, folder_of, read_export
from albert_tf.interop.heads import HEADS, find_head, heads_like
from albert_tf.interop.loading import Preset, load_weights, open_with_files
from albert_tf.task_kinds import kind_of
from albert_tf.tokenizers import Tokenizer, normalization
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer, read_model
from albert_tf.weights import MatchedWeights

logger = logging.getLogger(__name__)

# Default length to which published preprocessors pack texts.
_SEQ_LENGTH = 128


def export_saved_model(options: ExportOptions) -> None:
    """Write a model as SavedModels, with a model card.

    The folder contains `encoder/`, the encoder with the pretraining heads that the checkpoint has;
    `preprocess/`, which turns strings into its inputs; for a fine-tuned model a folder such as
    `classifier/`, which takes strings; and TFLite files if lengths are given. An export that was
    already made from the same inputs is left as it is.

    Raises:
        InputError: If the folder contains something else; checkpoint, config and vocabulary do not
            fit together; or TensorFlow Text is required but missing.
    """
    earlier = read_export(options.export_path)
    if exists(options.export_path) and not earlier:
        raise InputError(
            f"`export_path`={options.export_path}: already exists; remove it or choose another "
            "folder"
        )
    path = described_checkpoint(local_weights(options.init_checkpoint, argument="init_checkpoint"))
    options = dataclasses.replace(options, init_checkpoint=path)
    given = options.albert_config_file
    config = AlbertConfig.from_json_file(given) if given else None
    flags = (options.spm_model_file, options.do_lower_case)
    with arguments_renamed(name="init_checkpoint", vocabulary="spm_model_file"):
        source = open_with_files(path, path, folder_of(path), *flags, config)
    head = _choose_head(options, source)
    seq_length = _seq_length(options, source.config)
    kind = kind_of(head)
    with arguments_renamed(name="init_checkpoint"):
        settings: Any = task_settings(kind, options, source) if kind else None
    longest = source.config.max_position_embeddings
    lite_lengths = tflite.read_lengths(head, options.tflite_lengths, longest)
    requested = "`preprocess`" if options.preprocess else ""
    with_preprocess = options.preprocess is not False and _can_write(
        PREPROCESS, requested, source.tokenizer
    )
    requested = "" if options.head == "auto" else f"`head`={options.head}"
    with_task = kind is not None and _can_write(kind.export_folder, requested, source.tokenizer)
    model, matched = _load(source, head, settings)
    values = {weight.path: weight.numpy() for weight in model.weights}
    made = (head, source.config, values, source.tokenizer, source.adjacent, source.weights)
    exported = ConvertedModel(*made, license=options.license)
    made_from = {
        "head": head,
        "task": dataclasses.asdict(settings) if with_task else None,
        "labels": list(map(value_of, source.adjacent.labels)),
        "results": source.adjacent.results,
        "tflite_lengths": lite_lengths,
        "license": options.license,
        "weights": _sha256_of(values.values()),
        "config": source.config.to_dict(),
        "vocabulary": sha256_of(source.tokenizer.path),
        "normalization": source.tokenizer.normalization.to_dict(),
        "preprocess": with_preprocess,
        "max_seq_length": seq_length,
    }
    if earlier:
        if to_json(earlier.get("made_from"), sort_keys=True) == to_json(made_from, sort_keys=True):
            logger.info("%s: already exported from the same weights", options.export_path)
            return
        raise InputError(
            f"`export_path`={options.export_path}: already exists and is a different export; "
            "remove it or choose another folder"
        )
    logger.info(
        "%s: %d of %d variables loaded", matched.source, len(matched.loaded), len(model.weights)
    )
    content = {
        "init_checkpoint": pinned_name(options.init_checkpoint),
        "head": head,
        "step": source.weights.step,
        "tensorflow": tf.__version__,
        "made_from": made_from,
    }
    with (
        replacing(options.export_path) as folder,  # after an error, nothing is left
        tensorflow_errors_as_os_errors(),
    ):
        make_folder(folder, "export_path")
        encoder = model.encoder if kind else model
        lines = [_write_encoder(os.path.join(folder, ENCODER), source, encoder, matched)]
        if with_preprocess:
            lines.append(_write_preprocess(os.path.join(folder, PREPROCESS), source, seq_length))
        tasks = {}
        if kind and with_task:
            trained = TrainedModel(head, model, source.tokenizer, source.adjacent, settings)
            lines.append(write_task(folder, kind, trained))
            tasks[kind.export_folder] = kind.load("export").example(settings)
        lite_files = {}
        if lite_lengths:
            lite = os.path.join(folder, tflite.FOLDER)
            lite_files = tflite.write_lite_files(lite, head, model, lite_lengths)
        name = os.path.basename(options.export_path.rstrip("/"))
        model_card.write_export_card(folder, name, exported, tasks, lite_files)
        write_text(os.path.join(folder, EXPORT_FILE), to_json(content, indent=2) + "\n")
    for line in lines:
        logger.info("%s/%s", options.export_path, line)


def _sha256_of(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _choose_head(options: ExportOptions, preset: Preset) -> str:
    """Return the kind of model to export: the one that the options name, or that of the weights."""
    named, weights = f"`init_checkpoint`={options.init_checkpoint}", preset.weights
    if options.head != "auto":
        scope = HEADS[options.head].scope
        if not any(path.startswith(scope) for path in weights.tensors):
            found = weights.head or find_head(weights.tensors)
            raise InputError(f"`head`={options.head}: {named} has the head {found} instead")
        if options.head not in heads_like(options.head, weights):
            count = weights.tensors[f"{scope}output_bias"].shape[0]
            raise InputError(f"`head`={options.head}: {named} has {count} outputs instead of one")
        return options.head
    heads = preset.heads
    if preset.adjacent.problem_type:  # which only classifiers have
        heads = [name for name in heads if (kind := kind_of(name)) and kind.problem_types] or heads
    if len(heads) > 1:
        choices = " or ".join(f"`head`={name}" for name in heads)
        raise InputError(
            f"`head`: {named} has a single score, and no file next to it records its meaning; use "
            f"{choices}"
        )
    return heads[0]


def _seq_length(options: ExportOptions, config: AlbertConfig) -> int:
    longest = config.max_position_embeddings
    length = options.max_seq_length
    if length is None:
        return min(_SEQ_LENGTH, longest)
    if not 3 <= length <= longest:
        raise InputError(
            f"`max_seq_length`={length}: must be 3 to {longest}, the model's "
            "max_position_embeddings"
        )
    return length


def _can_write(folder: str, requested: str, tokenizer: Tokenizer) -> bool:
    """Return whether a folder that takes strings can be written; raise if it was `requested`."""
    try:
        check_tokenizer(tokenizer)
    except InputError as error:
        if requested:
            raise InputError(f"{requested}: {error}") from None
        logger.info("note: no %s/: %s", folder, error)
        return False
    return True


def _load(source: Preset, head: str, settings: Any) -> tuple[keras.Model, MatchedWeights]:
    model = create_exported_model(head, source.config, settings, source.weights)
    with arguments_renamed(path="init_checkpoint"):
        matched = load_weights(model, source.path)
    in_head = [name for name in matched.missing if not name.startswith("bert/")]
    if in_head and settings is not None:
        raise InputError(
            f"`init_checkpoint`={source.path}: lacks {in_head[0]} of the head {head}; "
            "`head`=encoder exports the rest"
        )
    return model, matched


def _write_encoder(folder: str, source: Preset, model: keras.Model, matched: MatchedWeights) -> str:
    missing = tuple(matched.missing)
    if any(path.startswith("bert/pooler/") for path in missing):
        logger.info("note: %s has no pooler; pooled_output is untrained", matched.source)
    paths = [weight.path for weight in model.weights]
    heads = [
        name
        for name, head in PRETRAINING_HEADS.items()
        if any(path.startswith(head.scope) for path in paths)
        and not any(path.startswith(head.scope) for path in missing)
    ]
    tokenizer = source.tokenizer
    texts = {CONFIG_FILE: source.config.to_json(), **_record(tokenizer)}
    if isinstance(tokenizer, SentencePieceTokenizer):
        pieces = read_model(tokenizer.serialized_model).pieces
        name = os.path.basename(tokenizer.path).removesuffix(".model")
        texts[f"{name}.vocab"] = "".join(f"{each.piece}\t{each.score:g}\n" for each in pieces)
    with assets(texts, tokenizer.path) as (config_file, *others, vocabulary):
        files = [vocabulary, *others]
        module = ExportedEncoder(model, config_file, files, tokenizer.do_lower_case, heads)
        signatures = module.signatures()
        tf.saved_model.save(module, folder, signatures=signatures)
    return f"{ENCODER}: signatures {', '.join(sorted(signatures))}"


def _record(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the file next to a vocabulary that records its normalization."""
    return {normalization.CONFIG_FILE: tokenizer.normalization.to_json()}


def _write_preprocess(folder: str, source: Preset, seq_length: int) -> str:
    tokenizer = source.tokenizer
    with assets(_record(tokenizer), tokenizer.path) as (record, vocabulary):
        files, lower = [vocabulary, record], tokenizer.do_lower_case
        module = PreprocessorExport(graph_tokenizer(tokenizer), files, lower, seq_length)
        tf.saved_model.save(module, folder, signatures=module.__call__)
    return f"{PREPROCESS}: strings to {seq_length} tokens"
