"""Conversion of weights from one format to another, tensor by tensor."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.export_options import ConvertOptions
from albert_tf.interop import huggingface, model_card
from albert_tf.interop import tensorflow_checkpoints as checkpoints
from albert_tf.interop.companions import (
    DATA_FILE,
    LABELS_FILE,
    RESULTS_FILE,
    Companions,
    find_companions,
)
from albert_tf.interop.formats import open_weights
from albert_tf.interop.huggingface_tokenizer import write_tokenizer
from albert_tf.interop.keras_weights import ENDING, write_keras_weights
from albert_tf.interop.models import HEADS, create_model, head_of
from albert_tf.interop.weights import Matched, Weights, config_differences, match
from albert_tf.tokenizers import Tokenizer


class Converted(NamedTuple):
    """A model on its way from one format to another.

    Attributes:
        head: key of `HEADS`.
        config: shape of the encoder.
        values: by the path of the variable here.
        step: training steps behind it; 0 if that is unknown.
        tokenizer: of its vocabulary, if there is one.
        companions: what stood beside the weights.
        source: where they are from.
        license: of the output, if somebody said.
    """

    head: str
    config: AlbertConfig
    values: dict[str, np.ndarray]
    step: int
    tokenizer: Tokenizer | None
    companions: Companions
    source: Weights
    license: str | None = None


def convert(options: ConvertOptions) -> None:
    """Reads `--input`, prints a row for every tensor, and writes `--output`.

    Raises:
        InputError: the input is not what it should be, does not match, or the output exists.
    """
    if files.exists(options.output):
        raise InputError(
            f"--output={options.output}: exists already; remove it or name another one"
        )
    given = AlbertConfig.from_json_file(options.config) if options.config else None
    weights = open_weights(options.input, "input", options.from_format, given)
    config = given or weights.config
    if config is None:
        raise InputError(f"--config: needed, since there is no {CONFIG_FILE} beside {weights.path}")
    tokenizer, companions = _tokenizer(options, config)
    head = options.head
    if head == "auto":
        head = weights.head or head_of(weights.tensors)

    if options.to_format == "huggingface" and not HEADS[head].architecture:
        raise InputError(
            f"--to_format=huggingface: has no model with the head of {weights.path} ({head}); "
            "--head=encoder converts the rest"
        )

    shapes = _shapes(head, config, weights)
    matched = match(shapes, weights, "input")
    print(report(shapes, weights, matched))
    for note in config_differences(config, weights, "input"):
        print(note)
    _check(options, HEADS[head].optional, weights, matched)
    values = {path: weights.read(name) for path, name in matched.loaded.items()}
    step = weights.step or 0
    model = Converted(head, config, values, step, tokenizer, companions, weights, options.license)
    with files.tensorflow_errors_as_os_errors():
        _WRITERS[options.to_format](options.output, model)
    for note in _notes(options, model, matched):
        print(note)
    print(f"{options.output}: written, {head}, {sum(v.size for v in values.values()):,} parameters")


def _notes(options: ConvertOptions, model: Converted, matched: Matched) -> Iterator[str]:
    """What whoever uses the output should know."""
    if matched.fresh:
        names = ", ".join(matched.fresh)
        in_keras = options.output.endswith(ENDING)
        yield f"note: {'at initial values' if in_keras else 'not'} in the output: {names}"
    if options.to_format == "google" and model.config.hidden_act == "gelu_exact":
        yield "note: the original code has no gelu_exact; its gelu is the approximation"
    if options.to_format == "huggingface" and model.tokenizer is None:
        yield "note: no vocabulary beside the weights; with --spm_model_file there is a tokenizer"


def _shapes(head: str, config: AlbertConfig, weights: Weights) -> dict[str, tuple[int, ...]]:
    """Shapes of the variables of a model, by path."""
    there = {path: tensor.shape for path, tensor in weights.tensors.items()}
    if head == "classifier" and "classifier/output_weights" not in there:
        raise InputError(f"--head=classifier: {weights.path} has no weights of a classifier")
    return {v.path: tuple(v.shape) for v in create_model(head, config, there).weights}


def report(shapes: dict[str, tuple[int, ...]], weights: Weights, matched: Matched) -> str:
    """A table of every tensor: name there, name here, shape there, what becomes of it."""
    rows = [("name there", "name here", "shape", "")]
    for path, shape in shapes.items():
        if path in matched.loaded:
            tensor = weights.tensors[matched.loaded[path]]
            rows.append((tensor.name, path, _text(tensor.stored), "matched"))
        else:
            rows.append(("-", path, _text(shape), "fresh"))
    unused = {weights.tensors[path].name: weights.tensors[path].stored for path in matched.unused}
    unused |= weights.unknown
    rows += [(name, "-", _text(shape), "unused") for name, shape in sorted(unused.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )
    return "\n".join(
        [
            *(line.rstrip() for line in lines),
            f"{weights.path}: {len(matched.loaded)} matched, {len(matched.fresh)} fresh, "
            f"{len(unused)} unused; skipped {len(weights.skipped)} that are no weights (optimizer "
            "slots, steps, copies)",
        ]
    )


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _check(
    options: ConvertOptions, optional: tuple[str, ...], weights: Weights, matched: Matched
) -> None:
    """Raises InputError if something did not match that should have."""
    missing = [path for path in matched.fresh if not path.startswith(optional or ("\0",))]
    # Whoever names a head wants that one, and leaves the others behind.
    unused = [] if options.head != "auto" else [weights.tensors[p].name for p in matched.unused]
    strangers = sorted([*unused, *weights.unknown])
    reasons = [
        f"{len(names)} {text} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for names, text in ((missing, "missing"), (strangers, "without a place here"))
        if names
    ]
    if reasons and not options.allow_partial:
        raise InputError(
            f"--input={options.input}: {' and '.join(reasons)}; is --config the model's? "
            "--allow_partial converts what matches"
        )


def _tokenizer(
    options: ConvertOptions, config: AlbertConfig
) -> tuple[Tokenizer | None, Companions]:
    """The vocabulary that the flag names, or that stands beside the weights."""
    companions = find_companions(options.input)
    path = options.spm_model_file or companions.vocabulary
    if path is None:
        return None, companions
    given = (options.do_lower_case, companions.do_lower_case, True)
    tokenizer = Tokenizer.load(path, next(value for value in given if value is not None))
    config.check_vocabulary(tokenizer.vocab_size, path)
    return tokenizer, companions


def _unshared(model: Converted) -> Converted:
    """The same model with copies where only attention or feed-forward networks are shared."""
    config = model.config
    if config.parameter_sharing not in ("attention", "ffn"):
        return model
    everything = dataclasses.replace(config, parameter_sharing="none")
    values = dict(model.values)
    for path, value in model.values.items():
        for group in range(1, config.num_hidden_groups):
            values.setdefault(re.sub(r"(?<!inner_)group_0/", f"group_{group}/", path), value)
    return model._replace(config=everything, values=values)


def _write_google(output: str, model: Converted) -> None:
    model = _unshared(model)
    config = dataclasses.replace(model.config, parameter_sharing=None)  # a key unknown there
    with files.replacing(output) as folder:
        files.make_folder(folder, "output")
        prefix = os.path.join(folder, f"model.ckpt-{model.step}")
        checkpoints.write_google_checkpoint(prefix, model.values, model.step)
        _write_companions(folder, model, config)


def _write_albert_tf(output: str, model: Converted) -> None:
    if output.endswith(ENDING):
        _write_keras(output, model)
        return
    with files.replacing(output) as folder:
        files.make_folder(folder, "output")
        prefix = os.path.join(folder, f"model.ckpt-{model.step}")
        checkpoints.write_training_checkpoint(prefix, model.values, model.step)
        _write_companions(folder, model, model.config)


def _write_keras(output: str, model: Converted) -> None:
    config_file = os.path.join(os.path.dirname(output), CONFIG_FILE)
    if files.exists(config_file) and AlbertConfig.from_json_file(config_file) != model.config:
        raise InputError(f"--output={output}: {config_file} beside it is of another model")
    shapes = {path: value.shape for path, value in model.values.items()}
    keras_model = create_model(model.head, model.config, shapes)
    for variable in keras_model.weights:
        if variable.path in model.values:
            variable.assign(model.values[variable.path])
    files.make_folder(os.path.dirname(output), "output")
    write_keras_weights(output, keras_model)
    files.write_text(config_file, model.config.to_json())


def _write_huggingface(output: str, model: Converted) -> None:
    model = _unshared(model)
    with files.replacing(output) as folder:
        files.make_folder(folder, "output")
        fields = huggingface_fields(model)
        huggingface.write_huggingface(folder, model.values, model.config, fields)
        if model.tokenizer is not None:
            length = model.config.max_position_embeddings
            write_tokenizer(model.tokenizer, folder, max_length=length)
        facts = model_card.Facts(
            name=os.path.basename(output.rstrip("/")),
            head=model.head,
            config=model.config,
            parameters=sum(value.size for value in model.values.values()),
            step=model.step,
            source=model.source.format,
            companions=model.companions,
            license=model.license,
        )
        card = model_card.huggingface_card(facts, folder, model.tokenizer is not None)
        files.write_text(os.path.join(folder, model_card.FILE), card)


def huggingface_fields(model: Converted) -> dict:
    """What `config.json` says besides the shape of the encoder."""
    architecture = HEADS[model.head].architecture
    if model.head == "pretraining" and "cls/seq_relationship/output_weights" not in model.values:
        architecture = "AlbertForMaskedLM"
    tokenizer = model.tokenizer
    fields = {
        "architectures": [architecture],
        "pad_token_id": tokenizer.pad_id if tokenizer else 0,
        "bos_token_id": tokenizer.cls_id if tokenizer else 2,
        "eos_token_id": tokenizer.sep_id if tokenizer else 3,
        "dtype": "float32",
    }
    if model.head == "classifier":
        count = len(model.values["classifier/output_bias"])
        labels = model.companions.labels
        if len(labels) != count:
            labels = [f"LABEL_{id}" for id in range(count)]
        fields["id2label"] = {str(id): label for id, label in enumerate(labels)}
        fields["label2id"] = {label: id for id, label in enumerate(labels)}
    return fields


def _write_companions(folder: str, model: Converted, config: AlbertConfig) -> None:
    """Config, vocabulary, labels, results and data, as training keeps them beside checkpoints."""
    companions = model.companions
    texts = {CONFIG_FILE: config.to_json()}
    if companions.labels:
        texts[LABELS_FILE] = json.dumps(companions.labels, ensure_ascii=False) + "\n"
    if companions.results:
        lines = (f"{name} = {value}\n" for name, value in companions.results.items())
        texts[RESULTS_FILE] = "".join(lines)
    if companions.data:
        texts[DATA_FILE] = json.dumps(companions.data, indent=2, ensure_ascii=False) + "\n"
    for name, text in texts.items():
        files.write_text(os.path.join(folder, name), text)
    if model.tokenizer is not None:
        path = os.path.join(folder, os.path.basename(model.tokenizer.path))
        with (
            files.open_file(model.tokenizer.path, "rb") as source,
            files.open_file(path, "wb") as target,
        ):
            shutil.copyfileobj(source, target)


_WRITERS: dict[str, Callable[[str, Converted], None]] = {
    "google": _write_google,
    "albert_tf": _write_albert_tf,
    "huggingface": _write_huggingface,
}
