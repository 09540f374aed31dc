"""Report sections for multiple choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.breakdowns import by_group, by_length, calibration
from albert_tf.report.intervals import Interval, bootstrap_mean, wilson
from albert_tf.report.sections import (
    MARKED,
    MOST_ERRORS,
    Card,
    Part,
    Section,
    Shade,
    Table,
    counted_errors,
    excerpt,
)
from albert_tf.tasks.multiple_choice.question import LETTERS, ChoiceQuestion


def choice_sections(examples: ExampleSet, probabilities: np.ndarray) -> list[Section]:
    """Return results by group and length, the predicted letters, and the worst errors.

    Args:
        examples: the questions; without answers there are only letters.
        probabilities: `[questions, choices]`.
    """
    questions: Sequence[ChoiceQuestion] = examples.examples
    predicted = probabilities.argmax(axis=-1)
    if any(question.answer is None for question in questions):
        return [_letters_section(f"Predictions ({examples.split})", predicted, None)]
    answers = np.array([question.answer for question in questions])
    correct = predicted == answers
    groups = [question.group for question in questions]
    sections = []
    if len(set(groups)) > 1:
        sections.append(by_group("By set", groups, correct, "set"))
    sections += by_length(examples.features.example_lengths, correct)
    loss = -np.log(probabilities[np.arange(len(answers)), answers].clip(1e-15))
    letters = _letters_section("Letters", predicted, answers)
    sections.append(letters._replace(intervals=_intervals(correct, np.array(groups), loss)))
    sections.append(calibration(probabilities.max(axis=-1), correct))
    sections.append(_errors_section(questions, probabilities))
    if examples.split == "eval":
        return sections
    return [
        each._replace(title=f"{each.title} ({examples.split})", intervals={}) for each in sections
    ]


def _intervals(correct: np.ndarray, groups: np.ndarray, loss: np.ndarray) -> dict[str, Interval]:
    intervals = {"eval_accuracy": wilson(correct.sum(), len(correct))}
    for group in sorted(set(groups) - {""}):
        of = correct[groups == group]
        intervals[f"eval_accuracy_{group}"] = wilson(of.sum(), len(of))
    intervals["eval_loss"] = bootstrap_mean(loss)
    return intervals


def _letters_section(title: str, predicted: np.ndarray, answers: np.ndarray | None) -> Section:
    last = int(max(predicted.max(), 0 if answers is None else answers.max()))
    rows = []
    for number in range(last + 1):
        row: list[str | Shade] = [LETTERS[number], Shade.of(predicted == number)]
        if answers is not None:
            of = predicted[answers == number]
            row += [Shade.of(answers == number), f"{(of == number).mean():.1%}" if len(of) else ""]
        rows.append(row)
    columns = ["letter", "predicted"]
    if answers is not None:
        columns += ["answer", "recall"]
    return Section(title, tables=[Table(columns, rows, frozenset(range(1, len(columns))))])


def _errors_section(questions: Sequence[ChoiceQuestion], probabilities: np.ndarray) -> Section:
    answers = np.array([question.answer for question in questions])
    predicted = probabilities.argmax(axis=-1)
    answer_probabilities = probabilities[np.arange(len(answers)), answers]
    wrong = np.flatnonzero(predicted != answers)
    cards = []
    for number in wrong[np.argsort(answer_probabilities[wrong], kind="stable")][:MOST_ERRORS]:
        question, choice_id = questions[number], predicted[number]
        marks = {int(choice_id): "prediction", int(answers[number]): "truth"}
        choices = [
            (LETTERS[n], [Part(choice, marks.get(n, "")), Part(f" {probabilities[number, n]:.1%}")])
            for n, choice in enumerate(question.choices)
        ]
        title = question.question or "(no question)"
        facts = [*choices, ("id", [Part(question.id)])]
        cards.append(Card(title, facts, [Part(excerpt(question.context, 300))]))
    return counted_errors(len(wrong), len(questions), "questions", MARKED, cards=cards)
