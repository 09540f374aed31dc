"""What a report says of answers found in a text."""

import numpy as np
import pytest

from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import Part
from albert_tf.tasks.question_answering.metrics import CMRC, evaluate, overlapping_sentence
from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion
from albert_tf.tasks.question_answering.report import (
    answered_section,
    question_word,
    sentences_around,
    squad_sections,
)
from albert_tf.tasks.question_answering.spans import Candidate, Prediction


def question(name, *answers):
    return SquadQuestion(name, f"{name}?", "a red cat sat", tuple(Answer(a, -1) for a in answers))


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
    scores, groups, *_, errors = sections
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
    cards = {card.title: dict(card.facts) for card in errors.cards}
    assert list(cards) == ["wrong?", "none?", "empty?", "half?"]
    assert cards["wrong?"]["answer"][0] == Part("sat", "truth")
    assert cards["wrong?"]["prediction"] == [Part("red", "prediction"), Part(" 100.0%, F1 0%")]
    assert [part.text for part in cards["none?"]["answer"]] == ["none"]
    assert cards["none?"]["prediction"][0] == Part("cat", "prediction")
    assert cards["empty?"]["prediction"] == [Part("none")]
    assert "".join(part.text for part in cards["half?"]["answer"]) == "red cat, or cat"
    assert errors.cards[0].text == [
        Part("a "), Part("red", "prediction"), Part(" cat "), Part("sat", "truth"),
    ]  # fmt: skip


def test_errors_are_shown_in_their_sentences():
    text = f"One, {'x ' * 300}here. Two is long. Three! Four has it."
    start, end = text.index("here"), text.index("it.")
    spans = [(start, start + 4, "truth"), (end, end + 2, "prediction")]
    parts = sentences_around(text, spans)
    shown = "".join(part.text for part in parts)
    assert shown.startswith("... x x x")
    assert shown.endswith("x here. ... Four has it.")
    assert len(shown) < 240
    assert [part for part in parts if part.marks] == [
        Part("here", "truth"), Part("it", "prediction"),
    ]  # fmt: skip
    assert "".join(part.text for part in sentences_around("A b. C d.", [])) == "A b.  ..."


def test_questions_by_word_and_length():
    words = ["How many are there?", "Of what is it made?", "By whom?", "Name one."]
    assert [question_word(text) for text in words] == ["how many", "what", "who", "other"]
    questions = [
        question(str(n), "cat " * (n + 1))._replace(text=words[n % 4], context="a " * (n + 5))
        for n in range(8)
    ]
    predictions = {each.id: prediction("cat") for each in questions}
    titles = [each.title for each in squad_sections(questions, predictions, None, False)]
    assert titles == [
        "Scores", "By question word", "By length of the answer", "By length of the context",
        "Worst errors",
    ]  # fmt: skip


def test_the_baseline_of_version_1_is_the_sentence_with_the_words_of_the_question():
    text = "The cat sat. A red dog barked at the cat! It rained."
    asked = question("q", "dog")._replace(text="Which dog barked?", context=text)
    assert overlapping_sentence(asked) == "A red dog barked at the cat!"


def test_without_a_threshold_every_question_is_answered():
    scores, *_, errors = squad_sections(
        QUESTIONS[:3], PREDICTIONS, None, False, CMRC, "they are Chinese"
    )
    assert scores.text.startswith("answer_metric=cmrc, because they are Chinese: official ev")
    assert errors.intervals.keys() == {"cmrc_exact_match", "cmrc_f1"}
    assert errors.text.startswith("2 of 3 questions")
    assert answered_section(["a", "", "b"]).text == "2 of 3 questions were answered."
