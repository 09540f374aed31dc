"""Conversion of weights from one format to another, tensor by tensor."""

import contextlib
import dataclasses
import importlib.util
import logging
import os
import tempfile
from collections.abc import Iterator

from albert_tf import files
from albert_tf.checkpoints import FOLDERS, CheckpointFolder
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed, tensorflow_errors_as_os_errors
from albert_tf.hub.names import local_weights
from albert_tf.interop.adaptation import adapt, check_extension, with_new_pieces
from albert_tf.interop.adjacent_files import (
    AdjacentFiles,
    check_tokenizer,
    described_checkpoint,
    find_adjacent_files,
    load_tokenizer,
)
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.converted_model import ConvertedModel, unshared, write_adjacent_files
from albert_tf.interop.file_names import folder_of, run_files
from albert_tf.interop.heads import HEADS, TEACHER_PROJECTION, create_model, possible_heads, read_as
from albert_tf.interop.huggingface import write_huggingface
from albert_tf.interop.keras_weights import SUFFIX, write_keras
from albert_tf.interop.loading import open_weights
from albert_tf.options import check_limits
from albert_tf.report.sections import text_table
from albert_tf.task_kinds import ENCODER, PRETRAINING, Head
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import MatchedWeights, Shape, Weights, config_differences, match, shape_text

logger = logging.getLogger(__name__)

_TRAINING_FOLDERS = {kind.weights_format: kind for kind in FOLDERS.values()}


def convert(options: ConvertOptions) -> None:
    """Convert the weights `input` to another format and log a table of all tensors.

    Raises:
        InputError: If the input is invalid or does not match a model, or the output exists.
    """
    check_limits(options)
    if files.exists(options.output):
        raise InputError(
            f"`output`={options.output}: already exists; remove it or choose another name"
        )
    with tempfile.TemporaryDirectory() as folder:
        _convert(options, folder)


def _convert(options: ConvertOptions, folder: str) -> None:
    """As `convert`; `folder` is for temporary files."""
    path = local_weights(options.input, argument="input")
    options = dataclasses.replace(options, input=path)
    given = AlbertConfig.from_json_file(options.config) if options.config else None
    if not _is_resumable(options):
        options = dataclasses.replace(options, input=described_checkpoint(options.input))
    with arguments_renamed(path="input"):
        weights = open_weights(options.input, options.from_format, given)
    config = given or weights.config
    if config is None:
        raise InputError(f"`config`: required, as there is no {CONFIG_FILE} next to {weights.path}")
    own_tokenizer, tokenizer, adjacent = _find_tokenizers(options, config, folder)
    if tokenizer is not own_tokenizer and options.output.endswith(SUFFIX):
        raise InputError(f"`output`={options.output}: must be a folder, for the new vocabulary")
    adjacent = adjacent.about(weights.step)
    if tokenizer is not own_tokenizer or options.max_position_embeddings is not None:
        weights, config = adapt(weights, config, own_tokenizer, tokenizer, options)
        data = {} if options.new_vocabulary else adjacent.data
        adjacent = dataclasses.replace(adjacent, results={}, evaluated=(), data=data)
    name = options.head
    if name == "auto":
        name = possible_heads(weights, folder_of(options.input))[0]
        if name == ENCODER.name and any(n.startswith(PRETRAINING.scopes) for n in weights.tensors):
            name = PRETRAINING.name
    head, weights = HEADS[name], read_as(name, weights)
    if options.to_format == "huggingface" and not head.huggingface:
        raise InputError(
            f"`to_format`=huggingface: has no model with the head of {weights.path} ({name}); "
            "`head`=encoder converts the rest"
        )

    stored = {path: tensor.shape for path, tensor in weights.tensors.items()}
    if head.labeled and f"{head.scope}output_weights" not in stored:
        raise InputError(f"`head`={name}: {weights.path} has no weights of a {name}")
    shapes = {v.path: tuple(v.shape) for v in create_model(name, config, stored).weights}
    with arguments_renamed(weights="input"):
        matched = match(shapes, weights)
        differences = config_differences(config, weights)
    logger.info("%s", tensor_table(shapes, weights, matched))
    for note in differences:
        logger.info("%s", note)
    _check(options, head, weights, matched)
    values = {path: weights.read(name) for path, name in matched.loaded.items()}
    optimizer = {}
    # It belongs to a model: without one of its heads, it would fit no model.
    if _is_resumable(options) and not matched.missing and not matched.unused:
        optimizer = {path: tensor.read() for path, tensor in weights.optimizer.items()}
    made = (name, config, values, tokenizer, adjacent, weights)
    model = ConvertedModel(*made, license=options.license, optimizer=optimizer)
    write_model(options.output, model, options.to_format)
    for note in _notes(options, model, matched):
        logger.info("%s", note)
    parameters = f"{sum(value.size for value in values.values()):,}"
    logger.info("%s: written, %s, %s parameters", options.output, name, parameters)


def write_model(output: str, model: ConvertedModel, format: str) -> None:
    """Write a new folder with a model in a format of `--to`, or a Keras weights file by its name.

    Raises:
        InputError: If TensorFlow, which writes the format, is not installed, or files of another
            model are next to `output`.
        OSError: If it cannot be written.
    """
    if format == "albert_tf" and output.endswith(SUFFIX):
        write_keras(output, model)
        return
    by_tensorflow = format in ("google", "albert_tf")
    if by_tensorflow and importlib.util.find_spec("tensorflow") is None:
        raise InputError(
            f"`to_format`={format}: is written by TensorFlow, which is not installed; install "
            "albert-tf[cpu]"
        )
    file_errors = tensorflow_errors_as_os_errors() if by_tensorflow else contextlib.nullcontext()
    with file_errors, files.replacing(output) as folder:
        files.make_folder(folder, "output")
        if format == "huggingface":
            write_huggingface(folder, unshared(model), os.path.basename(output.rstrip("/")))
        elif format == "google":
            from albert_tf.interop.google import write_google

            write_google(folder, unshared(model))
        else:
            _write_training_folder(_TRAINING_FOLDERS[format](folder), model)


def _write_training_folder(checkpoints: CheckpointFolder, model: ConvertedModel) -> None:
    """Write a checkpoint, and what the run needs to resume from it if the input is of a run."""
    folder, source = checkpoints.path, model.source
    checkpoint = checkpoints.write(model.step, model.values, model.optimizer)
    write_adjacent_files(folder, model, model.config)
    if not source.optimizer:
        return
    run_folder = os.path.dirname(source.path)
    copies = {os.path.join(run_folder, name): os.path.join(folder, name) for name in run_files()}
    copies[f"{source.path}.json"] = f"{checkpoint}.json"  # why a checkpoint in `best` is the best
    for path, copy in copies.items():
        if files.exists(path):
            files.write_bytes(copy, files.read_bytes(path))


def _is_resumable(options: ConvertOptions) -> bool:
    """Return whether the output is a training folder, which starts with the newest checkpoint."""
    return options.to_format in _TRAINING_FOLDERS and not options.output.endswith(SUFFIX)


def _notes(
    options: ConvertOptions, model: ConvertedModel, matched: MatchedWeights
) -> Iterator[str]:
    if matched.missing:
        names = ", ".join(matched.missing)
        in_keras = options.output.endswith(SUFFIX)
        yield f"note: {'at initial values' if in_keras else 'not'} in the output: {names}"
    if model.optimizer:
        yield (
            f"note: training can resume from step {model.step}; the output includes the "
            f"optimizer's state ({len(model.optimizer)} values)"
        )
    if options.to_format == "google" and model.config.hidden_act == "gelu_exact":
        yield "note: the original code has no gelu_exact; its gelu is the tanh approximation"
    if options.to_format == "huggingface" and model.tokenizer is None:
        yield (
            "note: no vocabulary next to the weights; --spm_model_file adds a tokenizer to the "
            "output"
        )


def tensor_table(shapes: dict[str, Shape], weights: Weights, matched: MatchedWeights) -> str:
    """Return a table with a row for every tensor in the file and every variable of the model."""
    rows = []
    for path, shape in shapes.items():
        if path in matched.loaded:
            tensor = weights.tensors[matched.loaded[path]]
            rows.append((tensor.name, path, shape_text(tensor.stored), "matched"))
        else:
            rows.append(("-", path, shape_text(shape), "missing"))
    unused = {weights.tensors[path].name: weights.tensors[path].stored for path in matched.unused}
    unused |= weights.unknown
    rows += [(name, "-", shape_text(shape), "unused") for name, shape in sorted(unused.items())]
    return (
        text_table(("tensor", "variable", "shape", ""), rows)
        + f"\n{weights.path}: {len(matched.loaded)} matched, {len(matched.missing)} missing, "
        f"{len(unused)} unused; skipped {len(weights.skipped)} values that are not weights "
        "(optimizer slots, steps, copies)"
    )


def _check(options: ConvertOptions, head: Head, weights: Weights, matched: MatchedWeights) -> None:
    """Raise InputError if a tensor or variable has no counterpart but should have one."""

    def has(scopes: str | tuple[str, ...]) -> bool:
        return any(path.startswith(scopes) for path in matched.loaded)

    # Such a part may be missing as a whole, but not all that make up the head.
    absent = tuple(part for part in head.optional if not has(part)) if has(head.scopes) else ()
    missing = [path for path in matched.missing if not path.startswith(absent)]
    # A user who names a head wants only that one, and leaves the others behind.
    unused = [
        weights.tensors[path].name
        for path in (matched.unused if options.head == "auto" else ())
        if not path.startswith(TEACHER_PROJECTION)
    ]
    unknown = sorted([*unused, *weights.unknown])
    reasons = [
        f"{len(names)} {text} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for names, text in ((missing, "missing"), (unknown, "unknown to the model"))
        if names
    ]
    if reasons and not options.allow_partial:
        raise InputError(
            f"`input`={options.input}: {' and '.join(reasons)}; is `config` the model's? "
            "`allow_partial` converts the weights that match"
        )


def _find_tokenizers(
    options: ConvertOptions, config: AlbertConfig, folder: str
) -> tuple[Tokenizer | None, Tokenizer | None, AdjacentFiles]:
    """Load the tokenizer of the model, and that of the output, which may have more pieces.

    Also return what is next to the weights.
    """
    adjacent = find_adjacent_files(options.input)
    path = options.spm_model_file or adjacent.vocabulary
    if path is None:
        return None, with_new_pieces(None, options, folder), adjacent

    def load(path: str) -> Tokenizer:
        with arguments_renamed(path="spm_model_file"):
            lower = None if options.new_vocabulary else options.do_lower_case
            return load_tokenizer(path, lower, [adjacent])

    own = extended = load(path)
    if options.spm_model_file and adjacent.vocabulary:
        found = load(adjacent.vocabulary)
        if config.vocab_size != extended.vocab_size > found.vocab_size:
            path, own = adjacent.vocabulary, found
            check_extension(own, extended)
        elif extended.pieces[: found.vocab_size] != found.pieces:
            with arguments_renamed(path="spm_model_file"):
                check_tokenizer(extended, options.input, adjacent)
    config.check_vocabulary(own.vocab_size, path)
    return own, with_new_pieces(extended, options, folder), adjacent
