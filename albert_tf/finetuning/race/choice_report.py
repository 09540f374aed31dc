"""Sections of a report on multiple choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.finetuning.race.choices import LETTERS, Question
from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.breakdowns import by_group, by_length
from albert_tf.report.intervals import Interval, bootstrap, wilson
from albert_tf.report.sections import Section, Shade, Table, error_section, excerpt


def choice_sections(split: str, examples: ExampleSet, probabilities: np.ndarray) -> list[Section]:
    """Results by group and length, the letters guessed, and the worst errors.

    Args:
        split: "eval" or "predict"; results need answers, which the latter may lack.
        examples: the questions.
        probabilities: `[questions, choices]`.
    """
    questions: Sequence[Question] = examples.examples
    guesses = probabilities.argmax(axis=-1)
    if any(question.answer is None for question in questions):
        return [_letters_section(f"Guesses ({split})", guesses, None)]
    answers = np.array([question.answer for question in questions])
    right = guesses == answers
    groups = [question.group for question in questions]
    sections = []
    if len(set(groups)) > 1:
        sections.append(by_group("By set", groups, right, "set"))
    sections += by_length(examples.features.example_lengths, right)
    loss = -np.log(probabilities[np.arange(len(answers)), answers].clip(1e-15))
    letters = _letters_section("Letters", guesses, answers)
    sections.append(letters._replace(intervals=_intervals(right, np.array(groups), loss)))
    sections.append(_errors_section(questions, probabilities))
    if split == "eval":
        return sections
    return [each._replace(title=f"{each.title} ({split})", intervals={}) for each in sections]


def _intervals(right: np.ndarray, groups: np.ndarray, loss: np.ndarray) -> dict[str, Interval]:
    intervals = {"eval_accuracy": wilson(right.sum(), len(right))}
    for group in sorted(set(groups) - {""}):
        of = right[groups == group]
        intervals[f"eval_accuracy_{group}"] = wilson(of.sum(), len(of))
    intervals["eval_loss"] = bootstrap(np.mean, loss)
    return intervals


def _letters_section(title: str, guesses: np.ndarray, answers: np.ndarray | None) -> Section:
    """How often each letter is guessed, beside how often it is right."""
    last = int(max(guesses.max(), 0 if answers is None else answers.max()))
    rows = []
    for number in range(last + 1):
        row = [LETTERS[number], _share(guesses == number)]
        if answers is not None:
            of = guesses[answers == number]
            row += [_share(answers == number), f"{(of == number).mean():.1%}" if len(of) else ""]
        rows.append(row)
    columns = ["letter", "guessed"]
    if answers is not None:
        columns += ["answer", "guessed right where it is the answer"]
    return Section(title, tables=[Table(columns, rows, frozenset(range(1, len(columns))))])


def _share(chosen: np.ndarray) -> Shade:
    return Shade(f"{chosen.mean():.1%} ({chosen.sum():,})", float(chosen.mean()))


def _errors_section(questions: Sequence[Question], probabilities: np.ndarray) -> Section:
    answers = np.array([question.answer for question in questions])
    guesses = probabilities.argmax(axis=-1)
    given = probabilities[np.arange(len(answers)), answers]
    wrong = np.flatnonzero(guesses != answers)
    rows = []
    for number in wrong[np.argsort(given[wrong], kind="stable")]:
        question, guess = questions[number], guesses[number]
        lines = [f"{LETTERS[n]}  {choice}" for n, choice in enumerate(question.choices)]
        rows.append(
            (
                question.id,
                excerpt(question.context),
                "\n".join([question.question, *lines]).strip(),
                LETTERS[question.answer],
                f"{LETTERS[guess]} ({probabilities[number, guess]:.1%})",
                f"{given[number]:.1%}",
            )
        )
    columns = ("id", "context", "question", "answer", "guess", "probability of the answer")
    return error_section(columns, rows, len(questions), frozenset({5}), "questions")
