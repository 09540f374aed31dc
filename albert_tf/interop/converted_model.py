"""A model between two formats, and the folders that are written of it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import os
import re
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.checkpoints.folder import CHECKPOINT_FORMATS, CheckpointFormat
from albert_tf.checkpoints.lists import NAME
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, tensorflow_errors_as_os_errors
from albert_tf.interop import huggingface, model_card
from albert_tf.interop.adjacent_files import (
    DATA_FILE,
    EVALUATION_DATA_FILE,
    LABELS_FILE,
    RESULTS_FILE,
    AdjacentFiles,
    evaluation_data,
    labels_text,
    run_files,
)
from albert_tf.interop.file_names import folder_of
from albert_tf.interop.heads import HEADS, create_model
from albert_tf.interop.huggingface_tokenizer import write_tokenizer
from albert_tf.interop.keras_weights import SUFFIX, write_keras_weights
from albert_tf.task_kinds import kind_of
from albert_tf.tokenizers import Tokenizer, normalization
from albert_tf.weights import Weights


class ConvertedModel(NamedTuple):
    """A model between two formats.

    Attributes:
        values: variable path -> value.
        source: weights of the input.
        optimizer: path of a variable of the optimizer -> value, to resume training; empty if the
            input has none or the model is not converted as a whole.
    """

    head: str
    config: AlbertConfig
    values: dict[str, np.ndarray]
    tokenizer: Tokenizer | None
    adjacent: AdjacentFiles
    source: Weights
    license: str | None = None
    optimizer: Mapping[str, np.ndarray] = types.MappingProxyType({})

    @property
    def step(self) -> int:
        """The number of training steps; 0 if unknown."""
        return self.source.step or 0


def _unshared(model: ConvertedModel) -> ConvertedModel:
    """Copy shared parameters if only attention or only feed-forward networks are shared."""
    config = model.config
    if config.parameter_sharing not in ("attention", "ffn"):
        return model
    everything = dataclasses.replace(config, parameter_sharing="none")
    values = dict(model.values)
    for path, value in model.values.items():
        for group in range(1, config.num_hidden_groups):
            values.setdefault(re.sub(r"(?<!inner_)group_0/", f"group_{group}/", path), value)
    return model._replace(config=everything, values=values)


def write_model(output: str, model: ConvertedModel, format: str) -> None:
    """Write a new folder with a model in a format of `--to`, or a Keras weights file by its name.

    Raises:
        InputError: If TensorFlow, which writes the format, is not installed, or files of another
            model are next to `output`.
        OSError: If it cannot be written.
    """
    if format == "albert_tf" and output.endswith(SUFFIX):
        _write_keras(output, model)
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
            _write_huggingface(folder, _unshared(model), os.path.basename(output.rstrip("/")))
        elif format == "google":
            _write_google(folder, _unshared(model))
        else:
            formats = {each.weights_format: each for each in CHECKPOINT_FORMATS.values()}
            _write_training_folder(folder, model, formats[format])


def _write_google(folder: str, model: ConvertedModel) -> None:
    from albert_tf.interop.google import write_google_checkpoint

    path = os.path.join(folder, f"{NAME}-{model.step}")
    write_google_checkpoint(path, model.values, model.step)
    config = dataclasses.replace(model.config, parameter_sharing=None)  # unknown to the original
    _write_adjacent_files(folder, model, config)


def _write_training_folder(folder: str, model: ConvertedModel, format: CheckpointFormat) -> None:
    """Write a checkpoint, and what the run needs to resume from it if the input is of a run."""
    checkpoint, source = os.path.join(folder, f"{NAME}-{model.step}"), model.source
    driver = importlib.import_module(format.driver)
    driver.write_training_checkpoint(checkpoint, model.values, model.step, model.optimizer)
    _write_adjacent_files(folder, model, model.config)
    if not source.optimizer:
        return
    run_folder = os.path.dirname(source.path)
    copies = {os.path.join(run_folder, name): os.path.join(folder, name) for name in run_files()}
    copies[f"{source.path}.json"] = f"{checkpoint}.json"  # why a checkpoint in `best` is the best
    for path, copy in copies.items():
        if files.exists(path):
            files.write_bytes(copy, files.read_bytes(path))


def _write_keras(output: str, model: ConvertedModel) -> None:
    folder = os.path.dirname(output)
    texts = {CONFIG_FILE: model.config.to_json(), **_meaning(model)}
    for name, text in texts.items():
        path = os.path.join(folder, name)
        if not files.exists(path):
            continue
        differs = files.read_json(path, object) != files.parse_json(text, path, object)
        if differs and (name != CONFIG_FILE or AlbertConfig.from_json_file(path) != model.config):
            raise InputError(f"`output`={output}: {path} belongs to another model")
    shapes = {path: value.shape for path, value in model.values.items()}
    keras_model = create_model(model.head, model.config, shapes)
    for variable in keras_model.weights:
        if variable.path in model.values:
            variable.assign(model.values[variable.path])
    files.make_folder(folder, "output")
    for name, text in texts.items():  # first, for the weights need them
        files.write_text(os.path.join(folder, name), text)
    write_keras_weights(output, keras_model)


def _write_huggingface(folder: str, model: ConvertedModel, name: str) -> None:
    tokenizer, fields = model.tokenizer, huggingface_fields(model)
    huggingface.write_huggingface(folder, model.values, model.config, fields)
    if tokenizer is not None:
        write_tokenizer(tokenizer, folder, model.config.max_position_embeddings)
    kind, texts = kind_of(model.head), _meaning(model)
    if kind and kind.huggingface_files:
        texts |= kind.huggingface_files(model.source.path, model.config)
    for file, text in texts.items():
        path = os.path.join(folder, file)
        files.make_folder(os.path.dirname(path), "output")
        files.write_text(path, text)
    facts = model_card.ModelFacts(
        name=name,
        head=model.head,
        config=model.config,
        parameters=sum(value.size for value in model.values.values()),
        weights=model.source,
        adjacent=model.adjacent,
        normalization=tokenizer.normalization if tokenizer else normalization.UNRECORDED,
        license=model.license,
    )
    model_card.write_huggingface_card(facts, folder, tokenizer is not None)


def huggingface_fields(model: ConvertedModel) -> dict[str, Any]:
    """Return the fields of `config.json` that do not describe the encoder."""
    head, tokenizer = HEADS[model.head], model.tokenizer
    architecture = head.huggingface
    if model.head == "pretraining" and "cls/seq_relationship/output_weights" not in model.values:
        architecture = "AlbertForMaskedLM"
    fields: dict[str, Any] = {
        "architectures": [architecture],
        "pad_token_id": tokenizer.pad_id if tokenizer else 0,
        "bos_token_id": tokenizer.cls_id if tokenizer else 2,
        "eos_token_id": tokenizer.sep_id if tokenizer else 3,
        "dtype": "float32",
    }
    if head.labeled:
        labels = _labels_of_outputs(model)
        fields["id2label"] = {str(id): label for id, label in enumerate(labels)}
        fields["label2id"] = {label: id for id, label in enumerate(labels)}
    if (kind := kind_of(model.head)) and (text := _meaning(model).get(kind.settings_file)):
        settings = files.parse_json(text, kind.settings_file, dict[str, Any])
        if problem_type := kind.problem_types.get(settings.get("kind", "")):
            fields["problem_type"] = problem_type
    return fields


def _labels_of_outputs(model: ConvertedModel) -> tuple[str, ...]:
    bias = model.values[f"{HEADS[model.head].scope}output_bias"]
    return model.adjacent.labels_of(len(bias))


def _meaning(model: ConvertedModel) -> dict[str, str]:
    """Return file name -> text of what says how the model reads examples, and what it answers."""
    texts = {LABELS_FILE: labels_text(model.adjacent.labels)} if model.adjacent.labels else {}
    if kind := kind_of(model.head):
        settings = os.path.join(folder_of(model.source.path), kind.settings_file)
        if files.exists(settings):
            texts[kind.settings_file] = files.read_text(settings)
        elif kind.problem_types:
            labels = _labels_of_outputs(model)
            if target := model.adjacent.target(kind, len(labels)):
                texts[kind.settings_file] = json.dumps({"kind": target}) + "\n"
            if target == "multi_label":
                texts[LABELS_FILE] = labels_text(labels)
    return texts


def _write_adjacent_files(folder: str, model: ConvertedModel, config: AlbertConfig) -> None:
    adjacent = model.adjacent
    texts = {CONFIG_FILE: config.to_json(), **_meaning(model)}
    if adjacent.results:
        lines = (f"{name} = {value}\n" for name, value in adjacent.results.items())
        texts[RESULTS_FILE] = "".join(lines)
    if adjacent.evaluated:
        texts[EVALUATION_DATA_FILE] = evaluation_data(adjacent.evaluated)
    if adjacent.data:
        texts[DATA_FILE] = json.dumps(adjacent.data, indent=2, ensure_ascii=False) + "\n"
    for name, text in texts.items():
        files.write_text(os.path.join(folder, name), text)
    if model.tokenizer is not None:
        path = os.path.join(folder, os.path.basename(model.tokenizer.path))
        files.write_bytes(path, files.read_bytes(model.tokenizer.path))
        record = os.path.join(folder, normalization.CONFIG_FILE)
        files.write_text(record, model.tokenizer.normalization.to_json())
