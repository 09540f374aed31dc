"""Exports for TF-Hub and for serving: SavedModels that load without this package.

`python -m albert_tf.interop.saved_model check DIR` looks at one and says whether it is right.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export import card, tflite
from albert_tf.export.encoder import HEADS, ExportedEncoder
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.task_exports import (
    TASKS,
    Trained,
    check_head,
    create_task_model,
    find_head,
    task_note,
    task_settings,
    write_task,
)
from albert_tf.files import sha256_of, tensorflow_errors_as_os_errors, write_text
from albert_tf.interop import layout, model_card
from albert_tf.interop.companions import Companions, find_companions
from albert_tf.interop.formats import load_weights, open_weights
from albert_tf.interop.weights import Matched, Weights
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.tokenizers import Tokenizer, sentencepiece_model
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer

# What published preprocessors pack texts to.
_SEQ_LENGTH = 128


class Source(NamedTuple):
    """What an export is made from.

    Attributes:
        head: kind of model, a key of `albert_tf.interop.models.HEADS`.
        weights: of the file.
        config: of the model.
        tokenizer: of the model.
        companions: what stands beside the weights.
    """

    head: str
    weights: Weights
    config: AlbertConfig
    tokenizer: Tokenizer
    companions: Companions


def export_saved_model(options: ExportOptions) -> None:
    """Writes `encoder/`, a SavedModel of a checkpoint's encoder with the pretraining heads that the
    checkpoint has, `preprocess/`, which turns strings into what it takes, and of a fine-tuned model
    `classifier/`, `squad/` or `choice/`, which takes texts; beside them TFLite files, if lengths
    are named, and a model card.

    Raises:
        InputError: something else is in the folder, checkpoint, config and vocabulary do not fit
            together, or TensorFlow Text is missing.
    """
    layout.check_free(options.export_path)
    source = open_source(options)
    seq_length = _seq_length(options, source.config)
    settings = None
    if source.head in TASKS:
        settings = task_settings(source.head, options, source.config)
    lite_lengths = tflite.read_lengths(
        source.head, options.tflite_lengths, source.config.max_position_embeddings
    )
    with_preprocess = _with_preprocess(options)
    with_task = settings is not None and _with_task(source.head, options)
    model, matched = _load(source, options.init_checkpoint, settings)
    made_from = {
        "head": source.head,
        "task": dataclasses.asdict(settings) if with_task else None,
        "labels": source.companions.labels,
        "results": source.companions.results,
        "tflite_lengths": lite_lengths,
        "license": options.license,
        "weights": layout.digest(weight.numpy() for weight in model.weights),
        "config": source.config.to_dict(),
        "vocabulary": sha256_of(source.tokenizer.path),
        "do_lower_case": source.tokenizer.do_lower_case,
        "preprocess": with_preprocess,
        "max_seq_length": seq_length,
    }
    if layout.is_made(options.export_path, made_from):
        print(f"{options.export_path}: is there already, made from the same weights")
        return
    print(f"{matched.source}: {len(matched.loaded)} of {len(model.weights)} variables loaded")
    manifest = {
        "init_checkpoint": options.init_checkpoint,
        "head": source.head,
        "step": source.weights.step,
        "tensorflow": tf.__version__,
        "made_from": made_from,
    }
    with (
        layout.writing(options.export_path, manifest) as folder,
        tensorflow_errors_as_os_errors(),
    ):
        lines = [_write_encoder(os.path.join(folder, layout.ENCODER), source, model, matched)]
        if with_preprocess:
            preprocess = os.path.join(folder, layout.PREPROCESS)
            lines.append(_write_preprocess(preprocess, source, seq_length))
        tasks = {}
        if with_task:
            trained = Trained(source.head, model, source.tokenizer, source.companions, settings)
            lines.append(write_task(folder, trained))
            tasks[TASKS[source.head].folder] = TASKS[source.head].example(settings)
        lite_files = []
        if lite_lengths:
            lite = os.path.join(folder, tflite.FOLDER)
            lite_files = tflite.write_lite_files(lite, source.head, model, lite_lengths)
        _write_card(folder, options, source, model, tasks, lite_files)
    for line in lines:
        print(f"{options.export_path}/{line}")


def open_source(options: ExportOptions) -> Source:
    """What the flags of an export name, without the values of the weights.

    Raises:
        InputError: one of them is missing, or they do not fit together.
    """
    config = None
    if options.albert_config_file:
        config = AlbertConfig.from_json_file(options.albert_config_file)
    weights = open_weights(options.init_checkpoint, config=config)
    config = config or weights.config
    if config is None:
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: has no {CONFIG_FILE} beside it; name it "
            "with --albert_config_file"
        )
    companions = find_companions(options.init_checkpoint)
    vocabulary = options.spm_model_file or companions.vocabulary
    if not vocabulary:
        raise InputError(
            "--spm_model_file: the vocabulary of the model is needed; there is none beside "
            f"{options.init_checkpoint}"
        )
    lower = (options.do_lower_case, companions.do_lower_case, True)
    tokenizer = Tokenizer.load(vocabulary, next(choice for choice in lower if choice is not None))
    config.check_vocabulary(tokenizer.vocab_size, vocabulary)
    return Source(find_head(options, weights), weights, config, tokenizer, companions)


def _seq_length(options: ExportOptions, config: AlbertConfig) -> int:
    longest = config.max_position_embeddings
    length = options.max_seq_length
    if length is None:
        return min(_SEQ_LENGTH, longest)
    if not 3 <= length <= longest:
        raise InputError(
            f"--max_seq_length={length}: must be 3 to {longest}, the model's "
            "max_position_embeddings"
        )
    return length


def _with_preprocess(options: ExportOptions) -> bool:
    """Whether preprocess/ is to be written; a note says it if nobody decided that it is not."""
    if options.preprocess is False:
        return False
    from albert_tf.export.tokenizers import tensorflow_text

    try:
        tensorflow_text()
    except InputError as error:
        if options.preprocess:
            raise InputError(f"--preprocess: {error}") from None
        print(f"note: no {layout.PREPROCESS}/: {error}")
        return False
    return True


def _with_task(head: str, options: ExportOptions) -> bool:
    """Whether the folder of a task is to be written; a note says it if it cannot be."""
    if note := task_note(head, named=options.head != "auto"):
        print(note)
    return note is None


def _load(source: Source, path: str, settings: Any) -> tuple[keras.Model, Matched]:
    if source.head in TASKS:
        model = create_task_model(source.head, source.config, settings, source.weights)
        matched = load_weights(model, path)
        check_head(source.head, matched.fresh, path)
        return model, matched
    pretrained = source.head == "pretraining"
    model = AlbertForPreTraining(source.config) if pretrained else AlbertEncoder(source.config)
    return model, load_weights(model, path)


def _write_card(
    folder: str,
    options: ExportOptions,
    source: Source,
    model: keras.Model,
    tasks: dict[str, str],
    lite_files: list[tflite.LiteFile],
) -> None:
    facts = model_card.Facts(
        name=os.path.basename(options.export_path.rstrip("/")),
        head=source.head,
        config=source.config,
        parameters=model.count_params(),
        step=source.weights.step or 0,
        source=source.weights.format,
        companions=source.companions,
        license=options.license,
    )
    latencies = ()
    if options.measure_latency:
        encoder = tf.saved_model.load(os.path.join(folder, layout.ENCODER))
        latencies = card.measured_latencies(encoder.signatures["serving_default"], source.config)
    card.write_card(folder, facts, tasks, lite_files, latencies)


def _write_encoder(folder: str, source: Source, model: keras.Model, matched: Matched) -> str:
    if source.head in TASKS:
        model = model.encoder
    if any(path.startswith("bert/pooler/") for path in matched.fresh):
        print(f"note: {matched.source} has no pooler; pooled_output is that of an untrained one")
    fresh = tuple(matched.fresh)
    paths = [weight.path for weight in model.weights]
    heads = [
        name
        for name, head in HEADS.items()
        if any(path.startswith(head.scope) for path in paths)
        and not any(path.startswith(head.scope) for path in fresh)
    ]
    with tempfile.TemporaryDirectory() as assets:
        config_file = os.path.join(assets, CONFIG_FILE)
        write_text(config_file, source.config.to_json())
        module = ExportedEncoder(
            model,
            config_file,
            [source.tokenizer.path, *_piece_list(source.tokenizer, assets)],
            source.tokenizer.do_lower_case,
            heads,
        )
        module.trace()
        signatures = module.signatures()
        tf.saved_model.save(module, folder, signatures=signatures)
    return f"{layout.ENCODER}: signatures {', '.join(sorted(signatures))}"


def _piece_list(tokenizer: Tokenizer, folder: str) -> list[str]:
    """The pieces of a SentencePiece model as text, as SentencePiece itself writes them."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return []
    name = os.path.basename(tokenizer.path).removesuffix(".model")
    path = os.path.join(folder, f"{name}.vocab")
    pieces = sentencepiece_model.read(tokenizer.serialized_model).pieces
    write_text(path, "".join(f"{piece.text}\t{piece.score:g}\n" for piece in pieces))
    return [path]


def _write_preprocess(folder: str, source: Source, seq_length: int) -> str:
    from albert_tf.export.preprocessor import Preprocessor
    from albert_tf.export.tokenizers import graph_tokenizer

    tokenizer = source.tokenizer
    module = Preprocessor(
        graph_tokenizer(tokenizer), [tokenizer.path], tokenizer.do_lower_case, seq_length
    )
    tf.saved_model.save(module, folder, signatures=module.__call__)
    return f"{layout.PREPROCESS}: strings to {seq_length} tokens"
