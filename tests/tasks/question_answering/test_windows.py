"""Windows over contexts: complete, in the original's layout, and true to the raw text."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion, read_squad
from albert_tf.tasks.question_answering.windows import (
    make_windows,
    max_context,
    parts_of,
    tokens_of,
)
from albert_tf.tokenizers import Tokenizer
from tests.conftest import random_inputs

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdxyz", *(f"##{c}" for c in "abcd")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY))
    return Tokenizer.load(str(path))


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


@random_inputs(200)
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
        sequence = [
            tokenizer.cls_id, *query, tokenizer.sep_id, *ids[part], tokenizer.sep_id,
        ]  # fmt: skip
        assert made.lengths[row] == len(sequence)
        assert padded["input_ids"][row, : len(sequence)].tolist() == sequence
        assert padded["segment_ids"][row, : len(sequence)].tolist() == [0] * (len(query) + 2) + [
            1
        ] * (len(ids[part]) + 1)
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
    arrays = made.arrays
    recovered = {question.id: set() for question in questions}
    for window, start, end in zip(
        made.windows, arrays["start_positions"], arrays["end_positions"], strict=True
    ):
        if start:
            first, last = start - window.position, end - window.position
            text = window.question.context[window.offsets[first, 0] : window.offsets[last, 1]]
            recovered[window.question.id].add(text.strip())
    exact = sum(recovered[q.id] == {q.answers[0].text.strip()} for q in questions)
    assert exact >= 1189
