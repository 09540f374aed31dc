"""Exports of fine-tuned models, which take strings."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.exported_task_model import TaskExport
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.export.task_settings import (
    ClassificationSettings,
    MultipleChoiceSettings,
    QuestionAnsweringSettings,
    TaggingSettings,
    read_settings,
)
from albert_tf.files import write_text
from albert_tf.interop.companions import (
    CHOICE_FILE,
    LABELS_FILE,
    QUESTION_ANSWERING_FILE,
    TAGGING_FILE,
    TARGET_FILE,
    THRESHOLD,
    Companions,
)
from albert_tf.interop.models import create_model
from albert_tf.interop.weights import Weights
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from albert_tf.tasks.classification.export import ClassificationExport
from albert_tf.tasks.multiple_choice.export import MultipleChoiceExport
from albert_tf.tasks.question_answering.export import QuestionAnsweringExport
from albert_tf.tasks.tagging.export import TaggingExport
from albert_tf.tasks.tagging.tags import PLAIN_TAGS, split_tag
from albert_tf.tokenizers import Tokenizer, normalization


class TrainedModel(NamedTuple):
    """A fine-tuned model with everything that its export needs.

    Attributes:
        head: a key of `TASK_EXPORTS`.
        model: the model with its weights.
        tokenizer: tokenizer of the model.
        companions: files next to the weights.
        settings: how the model reads texts, one of the classes in task_settings.py.
    """

    head: str
    model: keras.Model
    tokenizer: Tokenizer
    companions: Companions
    settings: Any


class ExportRow(NamedTuple):
    """How a kind of fine-tuned model is exported.

    Attributes:
        folder: name of the folder of the SavedModel.
        settings_file: file next to the weights that contains the settings.
        settings: class of the settings.
        create_module: creates the module to save from a model and the files kept as assets.
        example: returns example inputs of the signature as Python code, given the settings.
    """

    folder: str
    settings_file: str
    settings: type
    create_module: Callable[[TrainedModel, list[str]], TaskExport]
    example: Callable[[Any], str]


def _classifier(trained: TrainedModel, files: list[str]) -> TaskExport:
    settings: ClassificationSettings = trained.settings
    labels = _labels(trained)
    if (
        len(labels) == 1 and settings.kind == "classification"
    ):  # weights converted from another library
        settings = dataclasses.replace(settings, kind="regression")
    return ClassificationExport(trained.model, trained.tokenizer, files, settings, labels)


def _labels(trained: TrainedModel) -> tuple[str, ...]:
    """Returns the labels next to the weights, or their numbers if there are none."""
    count, labels = trained.model.num_labels, trained.companions.labels
    return labels if len(labels) == count else tuple(f"LABEL_{id}" for id in range(count))


def _tagger(trained: TrainedModel, files: list[str]) -> TaskExport:
    labels, settings = _labels(trained), trained.settings
    if not all(map(split_tag, labels)):  # weights converted from another library
        settings = dataclasses.replace(settings, tags=PLAIN_TAGS)
    return TaggingExport(trained.model, trained.tokenizer, files, settings, labels)


def _span(trained: TrainedModel, files: list[str]) -> TaskExport:
    threshold = trained.companions.results.get(THRESHOLD)
    settings: QuestionAnsweringSettings = trained.settings
    if settings.null_score_diff_threshold is None:
        settings = dataclasses.replace(settings, null_score_diff_threshold=float(threshold or 0))
    return QuestionAnsweringExport(trained.model, trained.tokenizer, files, settings, trained.head)


def _choice(trained: TrainedModel, files: list[str]) -> TaskExport:
    return MultipleChoiceExport(trained.model, trained.tokenizer, files, trained.settings)


def _texts(settings: ClassificationSettings) -> str:
    pair = ', text_pair=tf.constant(["A cat sat."])' if settings.pairs else ""
    return f'text=tf.constant(["The cat sat."]){pair}'


def _text(settings: TaggingSettings) -> str:
    return 'text=tf.constant(["Anna lives in Paris."])'


def _question(settings: Any) -> str:
    return 'question=tf.constant(["Who sat?"]), context=tf.constant(["The cat sat."])'


def _question_with_options(settings: MultipleChoiceSettings) -> str:
    return _question(settings) + ', options=tf.constant([["the cat", "the mat"]])'


_SPAN_EXPORT = ExportRow(
    "squad", QUESTION_ANSWERING_FILE, QuestionAnsweringSettings, _span, _question
)

# Kind of model, a key of `albert_tf.interop.models.MODEL_KINDS` -> its export.
TASK_EXPORTS = {
    "classifier": ExportRow("classifier", TARGET_FILE, ClassificationSettings, _classifier, _texts),
    "span": _SPAN_EXPORT,
    "conditional_span": _SPAN_EXPORT,
    "choice": ExportRow(
        "choice", CHOICE_FILE, MultipleChoiceSettings, _choice, _question_with_options
    ),
    "tagger": ExportRow("tagger", TAGGING_FILE, TaggingSettings, _tagger, _text),
}


def task_settings(head: str, options: ExportOptions, config: AlbertConfig) -> Any:
    """Returns how a model reads texts: the options win over the file next to the weights.

    Args:
        head: a key of `TASK_EXPORTS`.
        options: options of the export.
        config: config of the encoder.

    Raises:
        InputError: if a length is longer than the model supports, or too short for the task.
    """
    task = TASK_EXPORTS[head]
    names = [field.name for field in dataclasses.fields(task.settings)]
    changes = {name: getattr(options, name, None) for name in names}
    settings: Any = read_settings(
        task.settings, options.init_checkpoint, task.settings_file, changes
    )
    longest = config.max_position_embeddings
    if settings.max_seq_length is None:
        settings = dataclasses.replace(
            settings, max_seq_length=min(settings.default_length, longest)
        )
    if settings.max_seq_length > longest:
        raise InputError(
            f"`max_seq_length`={settings.max_seq_length}: must be at most {longest}, the model's "
            "max_position_embeddings"
        )
    if settings.max_seq_length < settings.min_length:
        raise InputError(
            f"`max_seq_length`={settings.max_seq_length}: must be at least {settings.min_length}"
        )
    return settings


def create_task_model(
    head: str, config: AlbertConfig, settings: Any, weights: Weights
) -> keras.Model:
    """Creates the model of a task with as many outputs as its weights have."""
    if head == "conditional_span":
        return AlbertForConditionalQuestionAnswering(
            config, settings.start_n_top, settings.end_n_top
        )
    shapes = {path: tensor.shape for path, tensor in weights.tensors.items()}
    return create_model(head, config, shapes)


def check_head(head: str, missing: Iterable[str], path: str) -> None:
    """Checks that the head of a task is loaded.

    Args:
        head: a key of `TASK_EXPORTS`.
        missing: variables that the weights do not contain.
        path: path of the weights.

    Raises:
        InputError: if a variable of the head is missing.
    """
    in_head = [name for name in missing if not name.startswith("bert/")]
    if in_head:
        raise InputError(
            f"`path`={path}: lacks {in_head[0]} of the head {head}; `head`=encoder exports the rest"
        )


def task_note(head: str, requested: bool) -> str | None:
    """Returns why the task of a model cannot be exported here; None if it can be.

    Args:
        head: a key of `TASK_EXPORTS`.
        requested: whether the user named the head.

    Raises:
        InputError: if it was requested but cannot be exported.
    """
    try:
        tensorflow_text()
    except InputError as error:
        if requested:
            raise InputError(f"`head`={head}: {error}") from None
        return f"note: no {TASK_EXPORTS[head].folder}/: {error}"
    return None


def write_task(folder: str, trained: TrainedModel) -> str:
    """Writes a model that takes strings.

    Args:
        folder: folder of the export.
        trained: the model.

    Returns:
        A line about what was written.

    Raises:
        InputError: if TensorFlow Text is missing.
    """
    task = TASK_EXPORTS[trained.head]
    with tempfile.TemporaryDirectory() as assets:
        files = {
            CONFIG_FILE: trained.model.config.to_json(),
            normalization.CONFIG_FILE: trained.tokenizer.normalization.to_json(),
        }
        if trained.companions.labels:
            files[LABELS_FILE] = json.dumps(trained.companions.labels, ensure_ascii=False) + "\n"
        paths = [os.path.join(assets, name) for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            write_text(path, text)
        module = task.create_module(trained, [*paths, trained.tokenizer.path])
        signatures = module.signatures()
        tf.saved_model.save(module, os.path.join(folder, task.folder), signatures=signatures)
    return f"{task.folder}: signatures {', '.join(sorted(signatures))}"
