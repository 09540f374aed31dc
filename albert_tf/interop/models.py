"""The models by what their heads are for, and which of them some weights belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import keras

from albert_tf.config import AlbertConfig
from albert_tf.interop.weights import Shape
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
)
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering


class Head(NamedTuple):
    """A kind of model.

    Attributes:
        model: its class.
        prefix: what the paths of its head begin with.
        architecture: the class at Hugging Face; "" where it has none.
        optional: paths that begin so may be missing: nothing of this head reads them, or
            published weights come without.
    """

    model: type[keras.Model]
    prefix: str
    architecture: str
    optional: tuple[str, ...] = ()


HEADS = {
    "pretraining": Head(
        AlbertForPreTraining, "cls/predictions/", "AlbertForPreTraining", ("cls/seq_relationship/",)
    ),
    "span": Head(
        AlbertForQuestionAnswering, "cls/squad/", "AlbertForQuestionAnswering", ("bert/pooler/",)
    ),
    "conditional_span": Head(
        AlbertForConditionalQuestionAnswering, "start_logits/", "", ("bert/pooler/",)
    ),
    "classifier": Head(
        AlbertForSequenceClassification, "classifier/", "AlbertForSequenceClassification"
    ),
    "choice": Head(AlbertForMultipleChoice, "classifier/", "AlbertForMultipleChoice"),
    "encoder": Head(AlbertEncoder, "bert/", "AlbertModel"),
}


def head_of(names: Iterable[str]) -> str:
    """The kind of model that has variables of these paths.

    A choice has the variables of a classifier with one output, and is taken for that.
    """
    names = list(names)
    return next(
        kind for kind, head in HEADS.items() if any(name.startswith(head.prefix) for name in names)
    )


def create_model(kind: str, config: AlbertConfig, shapes: Mapping[str, Shape]) -> keras.Model:
    """A model of a kind, with as many labels as the head of those `shapes` has."""
    if kind == "classifier":
        labels = shapes["classifier/output_weights"][0]
        return AlbertForSequenceClassification(config, num_labels=labels)
    return HEADS[kind].model(config)
