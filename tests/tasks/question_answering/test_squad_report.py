"""What a report says of answers found in a text."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.tasks.question_answering.answers import Candidate, Prediction
from albert_tf.tasks.question_answering.metrics import CMRC
from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion
from albert_tf.tasks.question_answering.report import answered_section, squad_sections
from albert_tf.tasks.question_answering.squad_metrics import evaluate


def question(name, *answers):
    return SquadQuestion(name, f"{name}?", "a red cat sat", tuple(Answer(a, 0) for a in answers))


def prediction(*texts, null_score=-1.0):
    candidates = [Candidate(text, -float(n), 0.0) for n, text in enumerate(texts)]
    return Prediction(candidates, null_score)


QUESTIONS = [
    question("right", "red cat"),
    question("half", "red cat", "cat"),
    question("wrong", "sat"),
    question("none"),
    question("empty", "cat"),
]
PREDICTIONS = {
    "right": prediction("red cat"),
    "half": prediction("cat sat here"),
    "wrong": prediction("red"),
    "none": prediction("cat", "red", null_score=-0.5),
    "empty": prediction("cat", null_score=2.0),
}


def test_results_have_intervals_and_errors_are_sorted():
    sections = squad_sections(QUESTIONS, PREDICTIONS, 0.0, version_2=True)
    scores, groups, errors = sections
    assert scores.text.startswith("answer_metric=squad: official evaluation of SQuAD")
    assert [row[:3] for row in groups.tables[0].rows] == [
        ("with an answer", "4", "25.0%"),
        ("without an answer", "1", "0.0%"),
    ]
    answers = {name: each.answer(0.0) for name, each in PREDICTIONS.items()}
    results = evaluate(QUESTIONS, answers, True)
    for name, (low, high, _) in errors.intervals.items():
        assert low <= results[name] <= high, name
    assert {name for name in results if not name.endswith("total")} == errors.intervals.keys()
    interval = errors.intervals["exact_match"]
    assert (interval.low, interval.high) == pytest.approx([100 * x for x in wilson(1, 5)[:2]])
    f1 = 100 * np.array([1, 0.5, 0, 0, 0])
    assert errors.intervals["f1"] == bootstrap_mean(f1)
    rows = errors.tables[0].rows
    assert [row[0] for row in rows] == ["wrong?", "none?", "empty?", "half?"]
    assert rows[0][2:] == ("sat", "red (100.0%)", "0.00")
    assert rows[1][2:4] == ("(none)", "cat (73.1%)")
    assert rows[2][3] == "(none)"
    assert rows[3][2] == "red cat\ncat"


def test_without_a_threshold_every_question_is_answered():
    _, errors = squad_sections(QUESTIONS[:3], PREDICTIONS, None, version_2=False)
    assert errors.intervals.keys() == {"exact_match", "f1"}
    assert errors.text.startswith("2 of 3 questions")


def test_answers_are_counted():
    assert answered_section(["a", "", "b"]).text == "2 of 3 questions were answered."


def test_the_metric_and_why_are_in_the_report():
    sections = squad_sections(QUESTIONS[:3], PREDICTIONS, None, False, CMRC, "they are Chinese")
    assert sections[0].text.startswith("answer_metric=cmrc, because they are Chinese: official ev")
    assert sections[-1].intervals.keys() == {"cmrc_exact_match", "cmrc_f1"}
