"""Fine-tuned models as SavedModels that take texts."""

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
from albert_tf.export.exported_classifier import ExportedClassifier
from albert_tf.export.exported_multiple_choice import ExportedMultipleChoice
from albert_tf.export.exported_question_answering import ExportedQuestionAnswering
from albert_tf.export.exported_task_model import ExportedTaskModel
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.export.task_settings import (
    ChoiceSettings,
    ClassifierSettings,
    SpanSettings,
    folder_of,
    read_settings,
)
from albert_tf.files import exists, write_text
from albert_tf.interop.companions import (
    CHOICE_FILE,
    LABELS_FILE,
    QUESTION_ANSWERING_FILE,
    TARGET_FILE,
    Companions,
)
from albert_tf.interop.models import HEADS, create_model, head_of
from albert_tf.interop.weights import Weights
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from albert_tf.tokenizers import Tokenizer


class Trained(NamedTuple):
    """A fine-tuned model, and what stood beside its weights.

    Attributes:
        head: key of `TASKS`.
        model: with its weights.
        tokenizer: of the model.
        companions: of the weights.
        settings: how it reads texts.
    """

    head: str
    model: keras.Model
    tokenizer: Tokenizer
    companions: Companions
    settings: Any


class Task(NamedTuple):
    """What a kind of model is exported as.

    Attributes:
        folder: name of the SavedModel's.
        file: beside the weights, with the settings.
        settings: class of these.
        serve: makes what is saved, of a model and files that are kept as assets.
        example: inputs of the signature as Python code, given the settings.
    """

    folder: str
    file: str
    settings: type
    serve: Callable[[Trained, list[str]], ExportedTaskModel]
    example: Callable[[Any], str]


def _classifier(trained: Trained, files: list[str]) -> ExportedTaskModel:
    count = trained.model.num_labels
    settings: ClassifierSettings = trained.settings
    labels = trained.companions.labels
    if len(labels) != count:
        labels = tuple(f"LABEL_{id}" for id in range(count))
    if count == 1 and settings.kind == "classification":  # of weights from elsewhere
        settings = dataclasses.replace(settings, kind="regression")
    return ExportedClassifier(trained.model, trained.tokenizer, files, settings, labels)


def _span(trained: Trained, files: list[str]) -> ExportedTaskModel:
    threshold = trained.companions.results.get("null_score_diff_threshold")
    settings: SpanSettings = trained.settings
    if settings.null_score_diff_threshold is None:
        settings = dataclasses.replace(settings, null_score_diff_threshold=float(threshold or 0))
    return ExportedQuestionAnswering(
        trained.model, trained.tokenizer, files, settings, trained.head
    )


def _choice(trained: Trained, files: list[str]) -> ExportedTaskModel:
    return ExportedMultipleChoice(trained.model, trained.tokenizer, files, trained.settings)


def _texts(settings: ClassifierSettings) -> str:
    pair = ', text_pair=tf.constant(["A cat sat."])' if settings.pairs else ""
    return f'text=tf.constant(["The cat sat."]){pair}'


def _question(settings: Any) -> str:
    return 'question=tf.constant(["Who sat?"]), context=tf.constant(["The cat sat."])'


def _question_with_options(settings: ChoiceSettings) -> str:
    return _question(settings) + ', options=tf.constant([["the cat", "the mat"]])'


_SPAN = Task("squad", QUESTION_ANSWERING_FILE, SpanSettings, _span, _question)

# Kind of model, a key of `albert_tf.interop.models.HEADS` -> its export.
TASKS = {
    "classifier": Task("classifier", TARGET_FILE, ClassifierSettings, _classifier, _texts),
    "span": _SPAN,
    "conditional_span": _SPAN,
    "choice": Task("choice", CHOICE_FILE, ChoiceSettings, _choice, _question_with_options),
}


def find_head(options: ExportOptions, weights: Weights) -> str:
    """The kind of model that is exported: the one that `--head` names, or that the weights are of.

    Args:
        options: of the export.
        weights: of `--init_checkpoint`.

    Raises:
        InputError: the weights lack the head that is named, or leave open which they have.
    """
    named = f"--init_checkpoint={options.init_checkpoint}"
    found = weights.head or head_of(weights.tensors)
    if options.head != "auto":
        prefix = HEADS[options.head].prefix
        if not any(path.startswith(prefix) for path in weights.tensors):
            raise InputError(
                f"--head={options.head}: {named} has no such head; the one it has is: {found}"
            )
        if options.head == "choice" and _scores(weights) != 1:
            raise InputError(
                f"--head=choice: {named} has a classifier of {_scores(weights)} labels, a choice "
                "has one score"
            )
        return options.head
    if found != "classifier" or _scores(weights) != 1 or weights.head:
        return found
    beside = {
        head: exists(os.path.join(folder_of(options.init_checkpoint), TASKS[head].file))
        for head in ("classifier", "choice")
    }
    if sum(beside.values()) != 1:
        raise InputError(
            f"--head: {named} has one score for a text, and nothing beside it says for what; give "
            "--head=classifier for a number, --head=choice for choices"
        )
    return next(head for head, there in beside.items() if there)


def _scores(weights: Weights) -> int:
    return weights.tensors["classifier/output_weights"].shape[0]


def task_settings(head: str, options: ExportOptions, config: AlbertConfig) -> Any:
    """How a model reads texts: as the flags say, else as is noted beside its weights.

    Args:
        head: key of `TASKS`.
        options: of the export.
        config: of the model.

    Raises:
        InputError: a length is more than the model can read, or leaves no room.
    """
    task = TASKS[head]
    names = [field.name for field in dataclasses.fields(task.settings)]
    changes = {name: getattr(options, name, None) for name in names}
    settings = read_settings(task.settings, options.init_checkpoint, task.file, changes)
    longest = config.max_position_embeddings
    if settings.max_seq_length is None:
        settings = dataclasses.replace(settings, max_seq_length=min(settings.usual_length, longest))
    if settings.max_seq_length > longest:
        raise InputError(
            f"--max_seq_length={settings.max_seq_length}: must be at most {longest}, the model's "
            "max_position_embeddings"
        )
    if settings.max_seq_length < settings.least_length:
        raise InputError(
            f"--max_seq_length={settings.max_seq_length}: must be at least {settings.least_length}"
        )
    return settings


def create_task_model(
    head: str, config: AlbertConfig, settings: Any, weights: Weights
) -> keras.Model:
    """A model of a task, with as many outputs as its weights have."""
    if head == "conditional_span":
        return AlbertForConditionalQuestionAnswering(
            config, settings.start_n_top, settings.end_n_top
        )
    shapes = {path: tensor.shape for path, tensor in weights.tensors.items()}
    return create_model(head, config, shapes)


def check_head(head: str, fresh: Iterable[str], path: str) -> None:
    """Raises InputError if a part of a task's head is not among the weights.

    Args:
        head: key of `TASKS`.
        fresh: variables that the weights have nothing for.
        path: of the weights.
    """
    missing = [name for name in fresh if not name.startswith("bert/")]
    if missing:
        raise InputError(
            f"--init_checkpoint={path}: lacks {missing[0]} of the head {head}; --head=encoder "
            "exports the rest"
        )


def task_note(head: str, named: bool) -> str | None:
    """Why a model's task cannot be exported here; None if it can.

    Args:
        head: key of `TASKS`.
        named: whether `--head` asks for it.

    Raises:
        InputError: it was asked for.
    """
    try:
        tensorflow_text()
    except InputError as error:
        if named:
            raise InputError(f"--head={head}: {error}") from None
        return f"note: no {TASKS[head].folder}/: {error}"
    return None


def write_task(folder: str, trained: Trained) -> str:
    """Writes a model that takes texts.

    Args:
        folder: of the export.
        trained: the model.

    Returns:
        A line on it.

    Raises:
        InputError: there is no TensorFlow Text.
    """
    task = TASKS[trained.head]
    with tempfile.TemporaryDirectory() as assets:
        files = {CONFIG_FILE: trained.model.config.to_json()}
        if trained.companions.labels:
            files[LABELS_FILE] = json.dumps(trained.companions.labels, ensure_ascii=False) + "\n"
        paths = [os.path.join(assets, name) for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            write_text(path, text)
        module = task.serve(trained, [*paths, trained.tokenizer.path])
        signatures = module.signatures()
        tf.saved_model.save(module, os.path.join(folder, task.folder), signatures=signatures)
    return f"{task.folder}: signatures {', '.join(sorted(signatures))}"
