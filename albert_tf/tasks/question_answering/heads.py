"""The heads that find answers, by name: the model, its training, and how its outputs are read."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.task import Outputs, mean_of_outputs
from albert_tf.flops import conditional_span_flops, span_flops
from albert_tf.modeling.losses import Objective
from albert_tf.modeling.question_answering import (
    AlbertForConditionalQuestionAnswering,
    AlbertForQuestionAnswering,
    ConditionalSpanObjective,
    SpanObjective,
)
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.spans import (
    NullScore,
    SpanFinder,
    conditional_spans,
    independent_spans,
    null_of_class,
    null_of_logits,
)

_PLACES = ("start_top_index", "end_top_index")
_SCORES = ("start_top_log_probs", "end_top_log_probs")


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


def _conditional_model(
    options: QuestionAnsweringOptions, config: AlbertConfig, dtype: str
) -> keras.Model:
    return AlbertForConditionalQuestionAnswering(
        config, options.start_n_top, options.end_n_top, options.classifier_dropout, dtype=dtype
    )


def mean_of_spans(outputs: Sequence[Outputs]) -> Outputs:
    """Return the spans that any model proposes, with the mean of their probabilities.

    A model gives probability 0 to a span that it does not propose, so a span of one model alone
    does not win over one that all find likely. (The paper, section 4.9, averages "those spans that
    have multiple probabilities" and leaves the others open.) The unanswerable scores are averaged.

    Args:
        outputs: of the conditional head of each model, for the same windows.

    Returns:
        The same outputs with as many starts as spans, each with one end. Rows with fewer spans are
        padded with spans of `[CLS]`, which are in no context.
    """
    windows = [
        _mean_of_window([{name: values[row] for name, values in each.items()} for each in outputs])
        for row in range(len(outputs[0]["cls_logits"]))
    ]
    most = max(len(each[0]) for each in windows)
    averaged = {name: np.zeros((len(windows), most), np.int64) for name in _PLACES}
    averaged |= {name: np.full((len(windows), most), -1e30) for name in _SCORES}
    for row, columns in enumerate(windows):
        for name, column in zip((*_PLACES, *_SCORES), columns, strict=True):
            averaged[name][row, : len(column)] = column
    cls = mean_of_outputs([{"cls_logits": each["cls_logits"]} for each in outputs])
    return {**averaged, **cls}


def _mean_of_window(outputs: Sequence[Outputs]) -> tuple[list[int], list[int], list, list]:
    """First tokens, last tokens, and scores of the starts and ends of all spans."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for each in outputs:
        ends_of_each = len(each["end_top_index"]) // len(each["start_top_index"])
        starts, start_scores = (
            np.repeat(each[name], ends_of_each).tolist() for name in (_PLACES[0], _SCORES[0])
        )
        ends, end_scores = (each[name].tolist() for name in (_PLACES[1], _SCORES[1]))
        for start, end, *scores in zip(starts, ends, start_scores, end_scores, strict=True):
            found.setdefault((start, end), []).append((scores[0], sum(scores)))
    means = {
        span: np.logaddexp.reduce(np.array(each), axis=0) - np.log(len(outputs))
        for span, each in found.items()
    }
    firsts, lasts = zip(*means, strict=True)
    of_starts = [start for start, _ in means.values()]
    return list(firsts), list(lasts), of_starts, [both - start for start, both in means.values()]


ANSWER_HEADS = {
    "span": AnswerHead(
        lambda options, config, dtype: AlbertForQuestionAnswering(config, dtype=dtype),
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
        (*_SCORES, *_PLACES, "cls_logits"),
        conditional_spans,
        null_of_class,
        mean_of_spans,
        conditional_span_flops,
    ),
}
