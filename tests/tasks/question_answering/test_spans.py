"""Windows over contexts, and the best answers in them, against looking at every one."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion, read_squad
from albert_tf.tasks.question_answering.spans import (
    ANSWER_HEADS,
    Candidate,
    Prediction,
    best_candidates,
    conditional_spans,
    independent_spans,
    write_answers,
)
from albert_tf.tasks.question_answering.windows import (
    Window,
    make_windows,
    max_context,
    parts_of,
    tokens_of,
)
from albert_tf.tokenizers import Tokenizer
from tests.conftest import random_inputs
from tests.support.finetuning import word_pieces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    pieces = [*"abcdxyz", *(f"##{c}" for c in "abcd")]
    return word_pieces(tmp_path_factory.mktemp("vocabulary"), pieces)


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 25))
def test_parts_cover_a_context(tokens, room, stride):
    parts = parts_of(tokens, room, stride)
    starts, lengths = zip(*parts, strict=True)
    assert starts[0] == 0
    assert sum(parts[-1]) == tokens
    assert set(lengths[:-1]) <= {room}
    assert 0 <= lengths[-1] <= room
    assert all(b - a == min(stride, room) for a, b in zip(starts, starts[1:], strict=False))
    # No part more than are needed.
    assert all(sum(part) < tokens for part in parts[:-1])


@example(400, 300, 250)  # the last part so much shorter that a longer one counts for more
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 25))
def test_a_token_belongs_to_the_part_with_the_most_context(tokens, room, stride):
    parts = parts_of(tokens, room, stride)
    for token, chosen in enumerate(max_context(parts, tokens)):
        scores = {}
        for number, (first, length) in enumerate(parts):
            if first <= token < first + length:
                context = min(token - first, first + length - 1 - token)
                scores[number] = context + 0.01 * length
        assert chosen == min(scores, key=lambda number: (-scores[number], number))


def test_memory_grows_with_the_context_only():
    tokens = 40_000
    parts = parts_of(tokens, 300, 128)
    tracemalloc.start()
    max_context(parts, tokens)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 * tokens < len(parts) * tokens


CONTEXTS = st.text(st.sampled_from("abcd xyz.\n"), max_size=50)


@random_inputs(80)
@given(
    st.lists(st.tuples(CONTEXTS, st.text("ab ", max_size=12), st.data()), min_size=1, max_size=3),
    st.integers(3, 8),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_windows_hold_what_they_say(tokenizer, cases, room, query_length, stride):
    questions, answers = [], []
    for number, (context, query, data) in enumerate(cases):
        answer = None
        if context.strip() and data.draw(st.booleans()):
            start = data.draw(st.integers(0, len(context) - 1))
            end = data.draw(st.integers(start + 1, len(context)))
            if context[start:end].strip():
                answer = Answer(context[start:end], start)
        questions.append(SquadQuestion(str(number), query, context, (answer,) if answer else ()))
        answers.append(answer)
    length = query_length + 3 + room
    made = make_windows(questions, tokenizer, length, query_length, stride, answers)
    padded = made.padded(length)
    assert len(made.windows) == len(made)
    may_start = {question.id: [] for question in questions}
    held = {question.id: False for question in questions}
    for row, window in enumerate(made.windows):
        question = window.question
        answer = answers[int(question.id)]
        ids, offsets = tokenizer.encode_with_offsets(question.context)
        query = tokenizer.encode(question.text)[:query_length]
        part = slice(window.first, window.first + len(window.offsets))
        start, end = [tokenizer.cls_id, *query, tokenizer.sep_id], [*ids[part], tokenizer.sep_id]
        length = made.lengths[row]
        assert padded["input_ids"][row, :length].tolist() == start + end
        assert padded["segment_ids"][row, :length].tolist() == [0] * len(start) + [1] * len(end)
        np.testing.assert_array_equal(window.offsets, offsets[part])
        assert window.position == len(query) + 2
        may_start[question.id] += (np.flatnonzero(window.may_start) + window.first).tolist()

        start, end = (made.arrays[f"{kind}_positions"][row] for kind in ("start", "end"))
        inside = False
        if answer is not None:
            first, last = tokens_of(answer, offsets)
            inside = window.first <= first and last < window.first + len(window.offsets)
        if inside:
            found = offsets[window.first + start - window.position, 0]
            stop = offsets[window.first + end - window.position, 1]
            # Whole tokens, so perhaps more than the answer, never less.
            assert question.context[found:stop].find(answer.text.strip()) >= 0
            held[question.id] = True
        else:
            assert (start, end) == (0, 0)
        assert made.arrays["is_impossible"][row] == (not inside)
    left_out = {question.id for question in made.skipped}
    for question in questions:
        if question.id not in left_out:
            tokens = len(tokenizer.encode(question.context))
            assert sorted(may_start[question.id]) == list(range(tokens))
    lost = [a and not held[str(n)] and str(n) not in left_out for n, a in enumerate(answers)]
    assert made.answers_in_no_window == sum(map(bool, lost))
    assert made.questions_truncated == sum(
        len(tokenizer.encode(q.text)) > query_length for q in questions if q.id not in left_out
    )


def test_tokens_of_an_answer():
    offsets = np.array([[0, 3], [4, 4], [4, 7], [7, 8], [8, 8], [10, 10]])

    def tokens(text, start):
        return tokens_of(Answer(text, start), offsets)

    assert tokens("abc", 0) == (0, 0)
    assert tokens("def", 4) == (2, 2)  # not the empty one before it
    assert tokens(" de", 3) == (2, 2)
    assert tokens("c d", 2) == (0, 2)
    assert tokens("f.", 6) == (2, 3)
    assert tokens(" ", 3) is None
    assert tokens("!", 8) is None
    assert tokens("!!", 9) is None  # nothing but a token that is empty


def test_an_answer_that_no_token_stands_for_leaves_its_question_out(tokenizer):
    questions = [SquadQuestion(str(n), "a", "a\u200bb", ()) for n in range(2)]
    made = make_windows(questions, tokenizer, 12, 4, 4, [Answer("\u200b", 1), Answer("b", 2)])
    assert made.skipped == questions[:1]
    assert [window.question for window in made.windows] == questions[1:]


@pytest.mark.integration
def test_real_answers_are_cut_from_the_text_as_they_are(shared):
    tokenizer = Tokenizer.load(str(shared("data/albert_en_vocab/30k-clean.model")))
    questions = read_squad(str(shared("data/squad/squad-v1.1-subset-1190q.json"))).questions
    made = make_windows(questions, tokenizer, 384, 64, 128, [q.placed_answer() for q in questions])
    assert not made.skipped
    assert not made.answers_in_no_window
    recovered = {question.id: set() for question in questions}
    places = (made.arrays[f"{kind}_positions"] for kind in ("start", "end"))
    for window, start, end in zip(made.windows, *places, strict=True):
        if start:
            first, last = start - window.position, end - window.position
            text = window.question.context[window.offsets[first, 0] : window.offsets[last, 1]]
            recovered[window.question.id].add(text.strip())
    exact = sum(recovered[q.id] == {q.answers[0].text.strip()} for q in questions)
    assert exact >= 1189


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
@random_inputs(80)
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
@random_inputs(80)
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


def test_the_surest_window_that_there_is_an_answer_counts():
    question, may_start = SquadQuestion("q", "?", "a b", ()), np.array([True])
    windows = [
        Window(question, 2, first, np.array([[2 * first, 2 * first + 1]]), may_start)
        for first in range(2)
    ]
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
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"nbest_predictions.json", "predictions.json"}
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
