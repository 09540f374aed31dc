"""Scores of answers against the published definition, written out a second time."""

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.question_answering.metrics import (
    SQUAD,
    best_threshold,
    evaluate,
    exact_match,
    f1,
    normalize_answer,
    question_scores,
)
from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion

WORDS = st.lists(
    st.sampled_from(["a", "The", "an", "cat", "Cat,", "mat", "...", "then", "a-the", "é", "—", ""]),
    max_size=6,
).map(" ".join)
TEXTS = st.one_of(WORDS, st.text(max_size=20))


def words_of(text):
    """Normalize as published, step by step: lower, punctuation, articles, white space."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    pieces = re.split(r"(\W+)", text)
    return "".join(" " if piece in ("a", "an", "the") else piece for piece in pieces).split()


def naive_f1(prediction, truth, version_2):
    prediction, truth = words_of(prediction), words_of(truth)
    if version_2 and not (prediction and truth):
        return float(prediction == truth)
    rest, same = list(truth), 0
    for word in prediction:
        if word in rest:
            rest.remove(word)
            same += 1
    return 2 * same / (len(prediction) + len(truth)) if same else 0.0


@given(TEXTS)
def test_normalization(text):
    assert normalize_answer(text).split() == words_of(text)
    assert normalize_answer(text) == " ".join(words_of(text))
    assert normalize_answer(normalize_answer(text)) == " ".join(words_of(" ".join(words_of(text))))


@given(TEXTS, TEXTS, st.booleans())
def test_f1_and_exact_match(prediction, truth, version_2):
    expected = naive_f1(prediction, truth, version_2)
    assert f1(prediction, truth, SQUAD, version_2) == pytest.approx(expected)
    assert f1(truth, prediction, SQUAD, version_2) == pytest.approx(expected)
    exact = exact_match(prediction, truth, SQUAD)
    assert exact == (words_of(prediction) == words_of(truth))
    if words_of(truth):
        assert f1(prediction, truth, SQUAD, version_2) >= exact


def test_published_examples():
    assert normalize_answer("The  U.S. Army, (a) an") == "us army"
    assert normalize_answer("Theatre and anthem") == "theatre and anthem"
    assert f1("the cat sat", "cat", SQUAD, False) == pytest.approx(2 / 3)
    assert f1("cat cat", "cat", SQUAD, False) == pytest.approx(2 / 3)
    # Two answers without words: the same to 2.0, nothing in common to 1.1.
    assert (f1("the", "", SQUAD, True), f1("the", "", SQUAD, False)) == (1, 0)
    assert (exact_match("the", "", SQUAD), exact_match("-", "a", SQUAD)) == (1, 1)


def question(id, *answers):
    return SquadQuestion(str(id), "Who?", "", tuple(Answer(text, -1) for text in answers))


def test_the_best_answer_counts():
    both = question(1, "the gray cat", "cat")
    assert question_scores(both, "Cat", False) == (1, 1)
    assert question_scores(both, "gray dog", False) == (0, pytest.approx(0.5))
    # An answer without words does not count in 2.0; without any other, nothing is the answer.
    assert question_scores(question(1, "the", "cat"), "an", True) == (0, 0)
    assert question_scores(question(1, "the"), "", True) == (1, 1)
    assert question_scores(question(1, "the", "cat"), "an", False) == (1, 0)
    assert question_scores(question(1), "", True) == (1, 1)
    assert question_scores(question(1), "cat", True) == (0, 0)


def test_results_of_a_file():
    questions = [question(1, "cat"), question(2, "gray dog"), question(3)]
    predictions = {"1": "the cat", "2": "dog", "3": "mat"}
    assert evaluate(questions[:2], predictions, False) == {
        "exact_match": 50,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "total": 2,
    }
    results = evaluate(questions, predictions, True)
    assert results["exact_match"] == pytest.approx(100 / 3)
    assert results["HasAns_f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert (results["HasAns_exact"], results["HasAns_total"]) == (50, 2)
    assert (results["NoAns_exact"], results["NoAns_f1"], results["NoAns_total"]) == (0, 0, 1)
    assert "HasAns_f1" not in evaluate(questions[2:], predictions, True)


# Scores whose sums are exact, so that equal means are equal.
CASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.booleans(), st.integers(-3, 3)), min_size=1
)


@given(CASES)
def test_the_best_threshold_is_found(cases):
    answered = np.array([score for score, _, _ in cases])
    has_answer = np.array([has for _, has, _ in cases])
    nulls = np.array([float(null) for _, _, null in cases])

    def mean_at(threshold):
        given = [score if null <= threshold else float(not has) for score, has, null in cases]
        return 100 * sum(given) / len(given)

    best, threshold = best_threshold(answered, has_answer, nulls)
    tried = {value: mean_at(value) for value in (-99.0, *nulls)}
    assert best == pytest.approx(max(tried.values()))
    assert mean_at(threshold) == pytest.approx(best)
    lower = [value for value in tried if value < threshold and value != -99.0]
    assert all(tried[value] < best - 1e-9 for value in lower)
    if threshold not in nulls:
        assert threshold < nulls.min()
