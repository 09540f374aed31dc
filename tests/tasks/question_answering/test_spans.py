"""The best answers, against looking at every span in a plain loop."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.spans import (
    ANSWER_HEADS,
    Candidate,
    Prediction,
    best_candidates,
    conditional_spans,
    independent_spans,
    write_answers,
)
from albert_tf.tasks.question_answering.windows import Window, max_context, parts_of
from tests.conftest import random_inputs

POSITION = 3  # of the first token of the context, after [CLS] and a short question


@st.composite
def read_contexts(draw, outputs_of):
    """Return a question, its windows and scores of a model, few of them different."""
    words = draw(st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=14))
    context, offsets = "", []
    for word in words:
        context += draw(st.sampled_from(["", " "]))
        offsets.append((len(context), len(context) + len(word)))
        context += word
    parts = parts_of(len(words), draw(st.integers(2, 6)), draw(st.integers(1, 6)))
    best = max_context(parts, len(words))
    question = SquadQuestion("1", "?", context, ())
    windows, outputs = [], []
    for number, (first, length) in enumerate(parts):
        part = slice(first, first + length)
        held = np.array(offsets[part]).reshape(-1, 2)
        windows.append(Window(question, POSITION, first, held, best[part] == number))
        outputs.append(draw(outputs_of(POSITION + length + 3)))
    return question, windows, outputs


def best_of(question, windows, spans, count):
    """Return the oracle: different texts in the order of their best spans.

    Args:
        spans: (window, score of the start, score of the end, first and last position).
    """
    tokens = {}
    for window in windows:
        tokens |= {window.first + n: span for n, span in enumerate(window.offsets)}
    ranked = []
    for window, start, end, first, last in spans:
        first, last = first - window.position, last - window.position
        if not 0 <= first <= last < len(window.offsets) or not window.may_start[first]:
            continue
        first, last = first + window.first, last + window.first
        span = question.context[tokens[first][0] : tokens[last][1]]
        text, place = span.strip(), tokens[first][0] + len(span) - len(span.lstrip())
        ranked.append((-(start + end), first, last, Candidate(text, start, end, place)))
    found = {}
    for *_, candidate in sorted(ranked):
        if candidate.text:
            found.setdefault(candidate.text, candidate)
    return list(found.values())[:count]


SCORES = st.integers(-4, 4).map(float)


@st.composite
def logits(draw, length):
    values = st.lists(SCORES, min_size=length, max_size=length)
    return {f"{kind}_logits": np.array(draw(values), np.float32) for kind in ("start", "end")}


@pytest.mark.integration
@random_inputs(150)
@given(read_contexts(logits), st.integers(1, 5), st.integers(1, 8))
def test_independent_starts_and_ends(case, max_answer_length, count):
    question, windows, outputs = case
    spans = [
        (window, float(own["start_logits"][i]), float(own["end_logits"][j]), i, j)
        for window, own in zip(windows, outputs, strict=True)
        for i in range(len(own["start_logits"]))
        for j in range(len(own["end_logits"]))
        if j - i < max_answer_length
    ]
    expected = best_of(question, windows, spans, count)
    found = best_candidates(*case, independent_spans, max_answer_length, count)
    assert found == expected


@st.composite
def beams(draw, length):
    starts, ends = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def array(values, size, dtype):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype)

    places = st.integers(0, length - 1)
    indexes = draw(st.lists(places, min_size=starts, max_size=starts, unique=True))
    return {
        "start_top_index": np.array(indexes, np.int32),
        "start_top_log_probs": array(SCORES, starts, np.float32),
        "end_top_index": array(places, starts * ends, np.int32),
        "end_top_log_probs": array(SCORES, starts * ends, np.float32),
    }


@pytest.mark.integration
@random_inputs(150)
@given(read_contexts(beams), st.integers(1, 5), st.integers(1, 8))
def test_ends_given_their_starts(case, max_answer_length, count):
    question, windows, outputs = case
    spans = []
    for window, own in zip(windows, outputs, strict=True):
        starts = len(own["start_top_index"])
        ends = len(own["end_top_index"]) // starts
        for i in range(starts):
            for j in range(i * ends, (i + 1) * ends):
                first, last = int(own["start_top_index"][i]), int(own["end_top_index"][j])
                scores = float(own["start_top_log_probs"][i]), float(own["end_top_log_probs"][j])
                if last - first < max_answer_length:
                    spans.append((window, *scores, first, last))
    expected = best_of(question, windows, spans, count)
    assert best_candidates(*case, conditional_spans, max_answer_length, count) == expected


def two_windows(context):
    question = SquadQuestion("q", "?", context, ())
    offsets = np.array([[0, 1], [2, 3]])
    return [
        Window(question, 2, 0, offsets[:1], np.array([True])),
        Window(question, 2, 1, offsets[1:], np.array([True])),
    ]


def test_the_surest_window_that_there_is_an_answer_counts():
    windows = two_windows("a b")
    starts = np.array([[3, 0, 1, 0], [1, 0, 5, 0]], np.float32)
    outputs = {"start_logits": starts, "end_logits": starts}
    predictions = ANSWER_HEADS["span"].predict(windows, outputs, 30, 20)
    (prediction,) = predictions.values()
    assert [candidate.text for candidate in prediction.candidates] == ["b", "a"]
    assert prediction.null_score == (1 + 1) - (5 + 5)
    outputs = {
        "start_top_index": np.array([[2], [2]]),
        "start_top_log_probs": np.array([[-2.0], [-1.0]]),
        "end_top_index": np.array([[2], [2]]),
        "end_top_log_probs": np.array([[-2.0], [-1.0]]),
        "cls_logits": np.array([0.5, -0.123456789]),
    }
    predictions = ANSWER_HEADS["conditional"].predict(windows, outputs, 30, 20)
    assert predictions["q"].null_score == -0.1234568  # as results print it, so it can be compared
    assert predictions["q"].answer() == "b"


def test_the_threshold_decides():
    prediction = Prediction([Candidate("cat", 1.0, 2.0)], 0.5)
    answers = [prediction.answer(threshold) for threshold in (None, 0.4, 0.5, 0.6)]
    assert answers == ["cat", "", "cat", "cat"]
    assert Prediction([], 0.5).answer(9.0) == ""


def test_files_of_answers(tmp_path):
    candidates = [Candidate("chat é", 1.0, 2.0), Candidate("b", 1.0, 1.0)]
    predictions = {"1": Prediction(candidates, 0.5), "2": Prediction([], -3.0)}
    write_answers(str(tmp_path), predictions, threshold=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
    ]
    write_answers(str(tmp_path), predictions, threshold=0.0)
    contents = {path.name: json.loads(path.read_text("utf-8")) for path in tmp_path.iterdir()}
    assert contents["predictions.json"] == {"1": "", "2": ""}
    assert contents["null_odds.json"] == {"1": 0.5, "2": -3.0}
    best, second = contents["nbest_predictions.json"]["1"]
    assert best == {
        "text": "chat é",
        "probability": pytest.approx(1 / (1 + np.exp(-1))),
        "start_log_prob": 1.0,
        "end_log_prob": 2.0,
    }
    assert best["probability"] + second["probability"] == pytest.approx(1)
    assert contents["nbest_predictions.json"]["2"] == []
