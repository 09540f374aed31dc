"""A model between two formats, and the files that folders of several formats have in common."""

import dataclasses
import json
import os
import re
import types
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.interop.adjacent_files import (
    AdjacentFiles,
    evaluation_data,
    json_text,
    labels_text,
    tokenizer_files,
)
from albert_tf.interop.file_names import (
    DATA_FILE,
    EVALUATION_DATA_FILE,
    LABELS_FILE,
    RESULTS_FILE,
    folder_of,
)
from albert_tf.interop.heads import HEADS, find_head
from albert_tf.task_kinds import PRETRAINING, kind_of
from albert_tf.tokenizers import Tokenizer
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

    @property
    def architecture(self) -> str:
        """The class in Hugging Face transformers of what there is; "" if there is none."""
        first, second = (
            any(path.startswith(scope) for path in self.values) for scope in PRETRAINING.scopes
        )
        if self.head == PRETRAINING.name and first != second:
            if first:
                return "AlbertForMaskedLM"
            if self.config.is_bert:  # there is none for an ALBERT
                return "AlbertForNextSentencePrediction"
        return HEADS[self.head].huggingface


def unshared(model: ConvertedModel) -> ConvertedModel:
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


def labels_of_outputs(model: ConvertedModel) -> tuple[str, ...]:
    """Return the labels of a head with labels: those recorded, or else numbered ones."""
    bias = model.values[f"{HEADS[model.head].scope}output_bias"]
    return model.adjacent.labels_of(len(bias))


def meaning(model: ConvertedModel) -> dict[str, str]:
    """Return file name -> text of what says how the model reads examples, and what it answers."""
    texts = {LABELS_FILE: labels_text(model.adjacent.labels)} if model.adjacent.labels else {}
    if kind := kind_of(model.head):
        settings = os.path.join(folder_of(model.source.path), kind.settings_file)
        if files.exists(settings):
            texts[kind.settings_file] = files.read_text(settings)
        elif kind.problem_types:
            labels = labels_of_outputs(model)
            if target := model.adjacent.target(kind, len(labels)):
                texts[kind.settings_file] = json.dumps({"kind": target}) + "\n"
            if target == "multi_label":
                texts[LABELS_FILE] = labels_text(labels)
        elif (head := HEADS[model.head]).settings or (
            head.has_variables and find_head(model.values) != head.name
        ):
            # Without it, the variables may be of another head.
            texts[kind.settings_file] = json.dumps(head.settings) + "\n"
    return texts


def write_adjacent_files(folder: str, model: ConvertedModel, config: AlbertConfig) -> None:
    """Write config, vocabulary, labels, settings, results and data next to a checkpoint."""
    adjacent = model.adjacent
    texts: dict[str, str | bytes] = {CONFIG_FILE: config.to_json(), **meaning(model)}
    if adjacent.results:
        lines = (f"{name} = {value}\n" for name, value in adjacent.results.items())
        texts[RESULTS_FILE] = "".join(lines)
    if adjacent.evaluated:
        texts[EVALUATION_DATA_FILE] = evaluation_data(adjacent.evaluated)
    if adjacent.data:
        texts[DATA_FILE] = json_text(adjacent.data)
    if model.tokenizer is not None:
        texts |= tokenizer_files(model.tokenizer)
    files.write_files(folder, texts)
