"""Report sections for question answering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.report.breakdowns import by_group
from albert_tf.report.intervals import Interval, bootstrap_mean, wilson
from albert_tf.report.sections import Section, error_section, excerpt
from albert_tf.tasks.question_answering.answers import Prediction
from albert_tf.tasks.question_answering.metrics import SQUAD, AnswerMetric
from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.squad_metrics import question_scores


def squad_sections(
    questions: Sequence[SquadQuestion],
    predictions: Mapping[str, Prediction],
    threshold: float | None,
    version_2: bool,
    metric: AnswerMetric = SQUAD,
    reason: str = "",
) -> list[Section]:
    """Return results with and without an answer, and the worst errors.

    Args:
        questions: with their answers.
        predictions: by the questions' ids.
        threshold: null score above which no answer is given; None to answer always.
        version_2: whether questions may have no answer.
        metric: how a prediction is compared with an answer.
        reason: why this metric.
    """
    answers = [predictions[question.id].answer(threshold) for question in questions]
    scores = np.array(
        [question_scores(q, a, version_2, metric) for q, a in zip(questions, answers, strict=True)]
    )
    has_answer = np.array([bool(question.answers) for question in questions])
    because = f", because {reason}" if reason else ""
    scored = f"answer_metric={metric.name}{because}: {metric.source}."
    sections = [Section("Scores", scored)]
    if version_2 and len(set(has_answer)) > 1:
        names = ["with an answer" if has else "without an answer" for has in has_answer]
        sections.append(by_group("Exact matches", names, scores[:, 0] > 0, "questions"))
    errors = _errors(questions, predictions, answers, scores)
    prefix = metric.prefix
    intervals = _intervals(scores, f"{prefix}exact_match", f"{prefix}f1")
    if version_2:
        for name, of in (("HasAns", has_answer), ("NoAns", ~has_answer)):
            if of.any():
                intervals |= _intervals(scores[of], f"{name}_{prefix}exact", f"{name}_{prefix}f1")
    return [*sections, errors._replace(intervals=intervals)]


def answered_section(answers: Sequence[str]) -> Section:
    """Return the number of questions that were answered."""
    answered = sum(bool(answer) for answer in answers)
    return Section("Predictions", f"{answered:,} of {len(answers):,} questions were answered.")


def _intervals(scores: np.ndarray, exact_match: str, f1: str) -> dict[str, Interval]:
    """Return confidence intervals of the means of both columns, in percent."""
    share = wilson(scores[:, 0].sum(), len(scores))
    return {
        exact_match: share._replace(low=100 * share.low, high=100 * share.high),
        f1: bootstrap_mean(100 * scores[:, 1]),
    }


def _errors(
    questions: Sequence[SquadQuestion],
    predictions: Mapping[str, Prediction],
    answers: Sequence[str],
    scores: np.ndarray,
) -> Section:
    """Return wrong answers: lowest F1 first, and among these the most confident."""
    rows = []
    for question, answer, (exact, f1) in zip(questions, answers, scores, strict=True):
        if exact:
            continue
        best = predictions[question.id].nbest()
        confidence = float(best[0]["probability"]) if best and answer else 0.0
        truth = "\n".join(dict.fromkeys(each.text for each in question.answers)) or "(none)"
        shown = f"{answer} ({confidence:.1%})" if answer else "(none)"
        cells = (question.text, excerpt(question.context), truth, shown, f"{f1:.2f}")
        rows.append((f1, -confidence, cells))
    rows.sort(key=lambda row: row[:2])
    columns = ("question", "context", "answers", "prediction", "F1")
    return error_section(
        columns, [cells for _, _, cells in rows], len(questions), frozenset({4}), "questions"
    )
