"""The best answers among all spans that a model scores, over all windows of a question.

`ANSWER_HEADS` has, by name, the heads that score them: model, training, and how outputs are read.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np
from scipy.special import softmax

from albert_tf.config import AlbertConfig
from albert_tf.files import to_json, write_text
from albert_tf.finetuning.task import Outputs, mean_of_outputs
from albert_tf.flops import conditional_span_flops, span_flops
from albert_tf.logs import counted
from albert_tf.modeling.losses import Objective
from albert_tf.modeling.question_answering import (
    AlbertForConditionalQuestionAnswering,
    AlbertForQuestionAnswering,
    ConditionalSpanObjective,
    SpanObjective,
)
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.windows import Window

logger = logging.getLogger(__name__)

# NumPy arrays of one window: score of the start, score of the end, first and last token.
Spans = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_NO_SPANS = (np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


class Candidate(NamedTuple):
    """A possible answer, the scores of its start and end, and its place in the context."""

    text: str
    start_score: float
    end_score: float
    start: int = -1

    @property
    def score(self) -> float:
        return self.start_score + self.end_score


def independent_spans(
    window: Window, outputs: Outputs, max_answer_length: int, count: int
) -> Spans:
    """Return at least the `count` best spans of a model that scores starts and ends independently.

    Every span of up to `max_answer_length` tokens is considered. Spans that tie with the last one
    are all returned. Outputs are `start_logits` and `end_logits` `[seq]`.
    """
    length = len(window.offsets)
    if not length:
        return _NO_SPANS
    part = slice(window.position, window.position + length)
    # Not np.float64(...), which turns a single score into a scalar in NumPy 2.2.
    starts, ends = (outputs[f"{kind}_logits"][part].astype(float) for kind in ("start", "end"))
    longest = min(max_answer_length, length)
    padded = np.concatenate([ends, np.full(longest - 1, -np.inf)])
    # scores[i, k]: of the span of k + 1 tokens from token i on.
    reachable = np.lib.stride_tricks.sliding_window_view(padded, longest)
    scores = np.where(window.may_start, starts, -np.inf)[:, None] + reachable
    least = -np.inf
    if scores.size > count:
        least = np.partition(scores, scores.size - count, axis=None)[scores.size - count]
    first, more = np.nonzero((scores >= least) & (scores > -np.inf))
    last = first + more
    return starts[first], ends[last], first + window.first, last + window.first


def conditional_spans(
    window: Window, outputs: Outputs, max_answer_length: int, count: int
) -> Spans:
    """Return all spans of a model that predicts ends for each of its best starts.

    Outputs are `start_top_index` and `start_top_log_probs` `[starts]`, `end_top_index` and
    `end_top_log_probs` `[starts * ends]`.
    """
    ends_of_each = len(outputs["end_top_index"]) // len(outputs["start_top_index"])
    first = np.repeat(outputs["start_top_index"], ends_of_each).astype(np.int64)
    first = first - window.position
    last = outputs["end_top_index"].astype(np.int64) - window.position
    length = len(window.offsets)
    inside = (first >= 0) & (first <= last) & (last < length) & (last - first < max_answer_length)
    inside[inside] = window.may_start[first[inside]]
    starts = np.repeat(outputs["start_top_log_probs"].astype(float), ends_of_each)
    ends = outputs["end_top_log_probs"].astype(float)
    first, last = first[inside] + window.first, last[inside] + window.first
    return starts[inside], ends[inside], first, last


def best_candidates(
    question: SquadQuestion,
    windows: Sequence[Window],
    outputs: Sequence[Outputs],
    find: Callable[[Window, Outputs, int, int], Spans],
    max_answer_length: int,
    count: int,
) -> list[Candidate]:
    """Return the `count` best spans of a question with distinct texts, best first.

    Among equal scores, the earlier and shorter span comes first. Surrounding white space is
    removed, and spans of nothing else are skipped. Windows are those of the question, each with the
    outputs of the model.
    """
    tokens = max(window.first + len(window.offsets) for window in windows)
    offsets = np.zeros([tokens, 2], np.int64)
    for window in windows:
        offsets[window.first : window.first + len(window.offsets)] = window.offsets
    wanted = count
    while True:
        # Several spans may have the same text, so the best `count` of them may not suffice.
        found = [
            find(window, each, max_answer_length, wanted)
            for window, each in zip(windows, outputs, strict=True)
        ]
        starts, ends, first, last = (np.concatenate(each) for each in zip(*found, strict=True))
        all_found = all(len(each[0]) < wanted for each in found)
        spans = starts, ends, first, last
        certain = len(starts) if all_found else wanted
        candidates = list(_distinct(question.context, offsets, spans, count, certain))
        if len(candidates) == count or all_found:
            return candidates
        wanted *= 4


def _distinct(
    context: str, offsets: np.ndarray, spans: Spans, count: int, certain: int
) -> Iterator[Candidate]:
    """Yield the first `count` distinct texts among the first `certain` spans, best first."""
    starts, ends, first, last = spans
    order = np.lexsort([last, first, -(starts + ends)])
    seen = {""}
    for place in order[:certain]:
        begin, end = int(offsets[first[place], 0]), offsets[last[place], 1]
        span = context[begin:end]
        text = span.strip()
        if text in seen:
            continue
        seen.add(text)
        begin += len(span) - len(span.lstrip())
        yield Candidate(text, float(starts[place]), float(ends[place]), begin)
        if len(seen) > count:
            return


class Prediction(NamedTuple):
    """A model's answer to a question.

    Attributes:
        candidates: distinct texts, best first; empty if the context contains none.
        null_score: higher if it is more likely that there is no answer; 7 significant digits.
    """

    candidates: list[Candidate]
    null_score: float

    def answer(self, threshold: float | None = None) -> str:
        """Return the best candidate; "" if there is none or the null score is too high."""
        if not self.candidates or (threshold is not None and self.null_score > threshold):
            return ""
        return self.candidates[0].text

    def nbest(self) -> list[dict[str, str | float]]:
        """Return the candidates and their relative probabilities, for a JSON file."""
        if not self.candidates:
            return []
        probabilities = softmax(np.array([candidate.score for candidate in self.candidates]))
        return [
            {
                "text": candidate.text,
                "probability": float(probability),
                "start_log_prob": candidate.start_score,
                "end_log_prob": candidate.end_score,
            }
            for candidate, probability in zip(self.candidates, probabilities, strict=True)
        ]


def write_answers(folder: str, predictions: dict[str, Prediction], threshold: float | None) -> None:
    """Write `predictions.json`, `nbest_predictions.json` and, with a threshold, `null_odds.json`.

    The threshold is the null score above which a question has no answer; None if all have one.
    """
    answers = {id: each.answer(threshold) for id, each in predictions.items()}
    contents = {
        "predictions.json": answers,
        "nbest_predictions.json": {id: each.nbest() for id, each in predictions.items()},
    }
    if threshold is not None:
        contents["null_odds.json"] = {id: each.null_score for id, each in predictions.items()}
    for name, content in contents.items():
        text = to_json(content, indent=4, ensure_ascii=False)
        write_text(f"{folder}/{name}", text + "\n")
    logger.info("%s in %s/predictions.json", counted(len(answers), "answer"), folder)
    if threshold is not None:
        without = sum(not answer for answer in answers.values())
        logger.info("%s of them empty, with a null threshold of %.7g", f"{without:,}", threshold)


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
    find: Callable[[Window, Outputs, int, int], Spans]
    null: Callable[[Outputs, float], float]
    average: Callable[[Sequence[Outputs]], Outputs]
    flops: Callable[[AlbertConfig, int], float]

    def predict(
        self, windows: Sequence[Window], outputs: Outputs, max_answer_length: int, count: int
    ) -> dict[str, Prediction]:
        """Return the answer to each question, by id; the lowest null score of its windows counts.

        Windows of a question are next to each other; outputs are `[windows, ...]`.
        """
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        pairs = zip(windows, rows, strict=True)
        predictions = {}
        for id, group in itertools.groupby(pairs, key=lambda pair: pair[0].question.id):
            own, values = zip(*group, strict=True)
            question = own[0].question
            candidates = best_candidates(question, own, values, self.find, max_answer_length, count)
            best = candidates[0].score if candidates else 0.0
            least = min(self.null(value, best) for value in values)
            predictions[id] = Prediction(candidates, float(f"{least:.7g}"))
        return predictions


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
        # `[CLS]` as start and end, compared with the best span.
        lambda outputs, best: (
            float(outputs["start_logits"][0]) + float(outputs["end_logits"][0]) - best
        ),
        mean_of_outputs,
        span_flops,
    ),
    "conditional": AnswerHead(
        lambda options, config, dtype: AlbertForConditionalQuestionAnswering(
            config, options.start_n_top, options.end_n_top, options.classifier_dropout, dtype=dtype
        ),
        ConditionalSpanObjective,
        (*_SCORES, *_PLACES, "cls_logits"),
        conditional_spans,
        lambda outputs, best: float(outputs["cls_logits"]),
        mean_of_spans,
        conditional_span_flops,
    ),
}
