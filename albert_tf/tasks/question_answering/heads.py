"""The heads that find answers, by name: the model, its training, and how its outputs are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.averaging import mean_of_outputs
from albert_tf.finetuning.task import Outputs
from albert_tf.flops import conditional_span_flops, span_flops
from albert_tf.modeling.heads import AlbertForQuestionAnswering
from albert_tf.modeling.losses import ConditionalSpanObjective, Objective, SpanObjective
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from albert_tf.tasks.question_answering.answers import NullScore, null_of_class, null_of_logits
from albert_tf.tasks.question_answering.averaging import mean_of_spans
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.spans import (
    SpanFinder,
    conditional_spans,
    independent_spans,
)


class AnswerHead(NamedTuple):
    """A way of finding answers.

    Attributes:
        build: the model, from the options, a config and the name of a Keras policy.
        objective: what its training minimises.
        outputs: of the model that contain the answers.
        find: the best spans in the outputs of a window.
        null: score of a window for having no answer, given its outputs and the score of the best
            span of the question.
        average: the outputs of an ensemble, from those of its models.
        flops: operations of training on an example of a length.
    """

    build: Callable[[QuestionAnsweringOptions, AlbertConfig, str], keras.Model]
    objective: type[Objective]
    outputs: tuple[str, ...]
    find: SpanFinder
    null: NullScore
    average: Callable[[Sequence[Outputs]], Outputs]
    flops: Callable[[AlbertConfig, int], float]


def _span_model(options: QuestionAnsweringOptions, config: AlbertConfig, dtype: str) -> keras.Model:
    return AlbertForQuestionAnswering(config, dtype=dtype)


def _conditional_model(
    options: QuestionAnsweringOptions, config: AlbertConfig, dtype: str
) -> keras.Model:
    return AlbertForConditionalQuestionAnswering(
        config, options.start_n_top, options.end_n_top, options.classifier_dropout, dtype=dtype
    )


ANSWER_HEADS = {
    "span": AnswerHead(
        _span_model,
        SpanObjective,
        ("start_logits", "end_logits"),
        independent_spans,
        null_of_logits,
        mean_of_outputs,
        span_flops,
    ),
    "conditional": AnswerHead(
        _conditional_model,
        ConditionalSpanObjective,
        (
            "start_top_log_probs",
            "start_top_index",
            "end_top_log_probs",
            "end_top_index",
            "cls_logits",
        ),
        conditional_spans,
        null_of_class,
        mean_of_spans,
        conditional_span_flops,
    ),
}
