"""Report sections for multiple choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    counted_errors,
    excerpt,
    table,
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
        return [_letters(f"Predictions ({examples.split})", predicted, None, {})]
    answers = np.array([question.answer for question in questions])
    correct, groups = predicted == answers, np.array([question.group for question in questions])
    answer_probabilities = probabilities[np.arange(len(answers)), answers]
    intervals = {"eval_accuracy": wilson(correct.sum(), len(correct))}
    for group in sorted(set(groups) - {""}):
        of = correct[groups == group]
        intervals[f"eval_accuracy_{group}"] = wilson(of.sum(), len(of))
    intervals["eval_loss"] = bootstrap_mean(-np.log(answer_probabilities.clip(1e-15)))
    order = [n for n in np.argsort(answer_probabilities, kind="stable") if not correct[n]]
    cards = [_card(questions[n], probabilities[n]) for n in order[:MOST_ERRORS]]
    sections = [
        *([by_group("By set", groups, correct, "set")] if len(set(groups)) > 1 else []),
        *by_length(examples.features.example_lengths, correct),
        _letters("Letters", predicted, answers, intervals),
        calibration(probabilities.max(axis=-1), correct),
        counted_errors(len(order), len(questions), "questions", MARKED, cards=cards),
    ]
    if examples.split == "eval":
        return sections
    return [
        each._replace(title=f"{each.title} ({examples.split})", intervals={}) for each in sections
    ]


def _letters(
    title: str,
    predicted: np.ndarray,
    answers: np.ndarray | None,
    intervals: Mapping[str, Interval],
) -> Section:
    columns = {"letter": "", "predicted": ">"}
    if answers is not None:
        columns |= {"answer": ">", "recall": ".1%"}
    last = int(max(predicted.max(), 0 if answers is None else answers.max()))
    rows = []
    for number in range(last + 1):
        row: list[str | Shade | float | None] = [LETTERS[number], Shade.of(predicted == number)]
        if answers is not None:
            of = predicted[answers == number]
            row += [Shade.of(answers == number), (of == number).mean() if len(of) else None]
        rows.append(row)
    return Section(title, tables=[table(columns, rows)], intervals=intervals)


def _card(question: ChoiceQuestion, probabilities: np.ndarray) -> Card:
    marks = {int(probabilities.argmax()): "prediction", question.answer: "truth"}
    choices = [
        (LETTERS[n], [Part(choice, marks.get(n, "")), Part(f" {probabilities[n]:.1%}")])
        for n, choice in enumerate(question.choices)
    ]
    facts = [*choices, ("id", [Part(question.id)])]
    return Card(question.question or "(no question)", facts, [Part(excerpt(question.context, 300))])
