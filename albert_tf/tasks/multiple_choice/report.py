"""Report sections for multiple choice."""

from collections.abc import Sequence

import numpy as np

from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.breakdowns import by_group, by_label, by_length, calibration, predictions
from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import (
    MARKED,
    MOST_ERRORS,
    Card,
    Part,
    Section,
    counted_errors,
    excerpt,
)
from albert_tf.tasks.multiple_choice.readers import LETTERS, ChoiceQuestion


def choice_sections(examples: ExampleSet, probabilities: np.ndarray) -> list[Section]:
    """Return results by group and length, the predicted letters, and the worst errors.

    Args:
        examples: the questions; without answers there are only letters.
        probabilities: `[questions, choices]`.
    """
    questions: Sequence[ChoiceQuestion] = examples.examples
    predicted = probabilities.argmax(axis=-1)
    if any(question.answer is None for question in questions):
        found = {LETTERS[n]: p[predicted == n] for n, p in enumerate(probabilities.T)}
        section = predictions("letter", found, len(questions))
        return [section._replace(title=f"Predictions ({examples.split})")]
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
    size, right = probabilities.shape[1], answers[correct]
    counts = (np.bincount(each, minlength=size) for each in (answers, predicted, right))
    letters = zip(LETTERS, *counts, strict=False)
    sections = [
        *([by_group("By set", groups, correct, "set")] if len(set(groups)) > 1 else []),
        *by_length(examples.features.example_lengths, correct),
        Section("Letters", tables=[by_label("letter", "questions", letters)], intervals=intervals),
        calibration(probabilities.max(axis=-1), correct),
        counted_errors(len(order), len(questions), "questions", MARKED, cards=cards),
    ]
    if examples.split == "eval":
        return sections
    return [
        each._replace(title=f"{each.title} ({examples.split})", intervals={}) for each in sections
    ]


def _card(question: ChoiceQuestion, probabilities: np.ndarray) -> Card:
    marks = {int(probabilities.argmax()): "prediction", question.answer: "truth"}
    choices = [
        (LETTERS[n], [Part(choice, marks.get(n, "")), Part(f" {probabilities[n]:.1%}")])
        for n, choice in enumerate(question.choices)
    ]
    facts = [*choices, ("id", [Part(question.id)])]
    return Card(question.question or "(no question)", facts, [Part(excerpt(question.context, 300))])
