"""The kinds of models, and which of them some weights belong to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import keras

from albert_tf.config import AlbertConfig
from albert_tf.interop.weights import Shape, Weights
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
)
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from albert_tf.modeling.token_classification import AlbertForTokenClassification


class ModelKind(NamedTuple):
    """A kind of model.

    Attributes:
        model: its class.
        prefix: prefix of the variable paths of its head.
        architecture: the class in Hugging Face transformers; "" if there is none.
        optional: prefixes of variables that may be missing, because the head does not use them or
            published weights lack them.
    """

    model: type[keras.Model]
    prefix: str
    architecture: str
    optional: tuple[str, ...] = ()


MODEL_KINDS = {
    "pretraining": ModelKind(
        AlbertForPreTraining, "cls/predictions/", "AlbertForPreTraining", ("cls/seq_relationship/",)
    ),
    "span": ModelKind(
        AlbertForQuestionAnswering, "cls/squad/", "AlbertForQuestionAnswering", ("bert/pooler/",)
    ),
    "conditional_span": ModelKind(
        AlbertForConditionalQuestionAnswering, "start_logits/", "", ("bert/pooler/",)
    ),
    "classifier": ModelKind(
        AlbertForSequenceClassification, "classifier/", "AlbertForSequenceClassification"
    ),
    "choice": ModelKind(AlbertForMultipleChoice, "classifier/", "AlbertForMultipleChoice"),
    "tagger": ModelKind(
        AlbertForTokenClassification,
        "token_classifier/",
        "AlbertForTokenClassification",
        ("bert/pooler/",),
    ),
    "encoder": ModelKind(AlbertEncoder, "bert/", "AlbertModel"),
}


# Kinds whose logits are labels.
LABELED = ("classifier", "tagger")


def find_kind(paths: Iterable[str]) -> str:
    """Returns the key in `MODEL_KINDS` of the model with these variable paths.

    A multiple-choice model has the same variables as a classifier with one output, and is reported
    as a classifier.
    """
    paths = list(paths)
    return next(
        name
        for name, kind in MODEL_KINDS.items()
        if any(path.startswith(kind.prefix) for path in paths)
    )


def read_as(kind: str, weights: Weights) -> Weights:
    """Names the classifier in some weights as that of a kind of model.

    Files of other projects may not record whether a classifier labels sequences or tokens, and are
    read as the former.

    Args:
        kind: a key of `MODEL_KINDS`.
        weights: the weights.
    """
    tagger, classifier = MODEL_KINDS["tagger"].prefix, MODEL_KINDS["classifier"].prefix
    named = any(path.startswith(tagger) for path in weights.tensors)
    if kind != "tagger" or named or weights.format not in ("google", "huggingface"):
        return weights
    tensors = {
        re.sub(f"^{classifier}", tagger, path): tensor for path, tensor in weights.tensors.items()
    }
    return dataclasses.replace(weights, tensors=tensors)


def create_model(kind: str, config: AlbertConfig, shapes: Mapping[str, Shape]) -> keras.Model:
    """Creates a model of a kind.

    Args:
        kind: a key of `MODEL_KINDS`.
        config: config of the encoder.
        shapes: variable path -> shape, from which classifiers take their number of labels.
    """
    row = MODEL_KINDS[kind]
    if kind in LABELED:
        return row.model(config, num_labels=shapes[f"{row.prefix}output_weights"][0])
    return row.model(config)
