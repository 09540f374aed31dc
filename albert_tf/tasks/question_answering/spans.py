"""The best answers among all spans that a model scores, as substrings of the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.windows import Window

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
    window: Window, outputs: dict[str, np.ndarray], max_answer_length: int, count: int
) -> Spans:
    """At least the `count` best spans of a model that scores starts and ends independently.

    Every span of up to `max_answer_length` tokens is considered. Spans that tie with the last one
    are all returned.

    Args:
        window: that the model read.
        outputs: of the window: `start_logits` and `end_logits` `[seq]`.
        max_answer_length: maximum tokens in a span.
        count: number of spans.
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
    window: Window, outputs: dict[str, np.ndarray], max_answer_length: int, count: int
) -> Spans:
    """Return the spans of a model that predicts ends for each of its best starts.

    Args:
        window: that the model read.
        outputs: of the window: `start_top_index` and `start_top_log_probs` `[starts]`,
            `end_top_index` and `end_top_log_probs` `[starts * ends]`.
        max_answer_length: maximum tokens in a span.
        count: ignored; all spans are returned.
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


SpanFinder = Callable[[Window, dict[str, np.ndarray], int, int], Spans]


def best_candidates(
    question: SquadQuestion,
    windows: Sequence[Window],
    outputs: Sequence[dict[str, np.ndarray]],
    find: SpanFinder,
    max_answer_length: int,
    count: int,
) -> list[Candidate]:
    """Return the best spans of a question with distinct texts, best first.

    Among equal scores, the earlier and shorter span comes first. Surrounding white space is
    removed, and spans of nothing else are skipped.

    Args:
        question: with its context.
        windows: of the question.
        outputs: of the model for each window.
        find: the spans of one window.
        max_answer_length: maximum tokens in an answer.
        count: number of candidates.
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
