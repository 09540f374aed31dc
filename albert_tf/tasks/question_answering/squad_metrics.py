"""Results of a file of questions, as in the official evaluations of SQuAD 1.1 and 2.0."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.tasks.question_answering.metrics import SQUAD, AnswerMetric, exact_match, f1
from albert_tf.tasks.question_answering.readers import SquadQuestion


def question_scores(
    question: SquadQuestion, prediction: str, version_2: bool, metric: AnswerMetric = SQUAD
) -> tuple[float, float]:
    """Return exact match and F1 of a prediction, each the best over the answers.

    In 2.0, answers without units (words, by default) are ignored. If none is left, "" is correct.
    """
    answers = [answer.text for answer in question.answers]
    if version_2:
        answers = [answer for answer in answers if metric.split(answer)]
    answers = answers or [""]
    return (
        max(exact_match(prediction, answer, metric) for answer in answers),
        max(f1(prediction, answer, metric, version_2) for answer in answers),
    )


# Abbreviations end sentences, too: reports show a sentence, and a baseline answers with one.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\W?[A-Z0-9])|(?<=[\u3002\uff01\uff1f])")


def sentence_places(text: str) -> list[tuple[int, int]]:
    """Return start and end of the sentences of a text, which have no gap between them."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return [*itertools.pairwise([0, *ends, len(text)])]


def overlapping_sentence(question: SquadQuestion, metric: AnswerMetric = SQUAD) -> str:
    """Return the first sentence of the context with the most words of the question."""
    words = set(metric.split(question.text))
    sentences = [question.context[a:b].strip() for a, b in sentence_places(question.context)]
    return max(sentences, key=lambda sentence: len(words & set(metric.split(sentence))))


def evaluate(
    questions: Sequence[SquadQuestion],
    predictions: Mapping[str, str],
    version_2: bool,
    metric: AnswerMetric = SQUAD,
) -> dict[str, float]:
    """Return results in percent: `exact_match`, `f1`, and `total`, the number of questions.

    In 2.0 also for the questions with and without an answer: `HasAns_exact`, `HasAns_f1`,
    `HasAns_total`, `NoAns_exact` and so on, if there are any. Another metric than SQuAD's adds its
    prefix: `cmrc_f1`, `HasAns_cmrc_f1`.

    Args:
        questions: with their answers.
        predictions: question id -> answer, "" for none.
        version_2: whether questions may have no answer.
        metric: how a prediction is compared with an answer.
    """
    scores = np.array([question_scores(q, predictions[q.id], version_2, metric) for q in questions])
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, mean_f1 = (100 * scores.mean(axis=0)).tolist()
    prefix = metric.prefix
    results = {f"{prefix}exact_match": exact, f"{prefix}f1": mean_f1, "total": len(questions)}
    groups = {"HasAns": has_answer, "NoAns": ~has_answer} if version_2 else {}
    for name, members in groups.items():
        if members.any():
            exact, mean_f1 = (100 * scores[members].mean(axis=0)).tolist()
            results |= {f"{name}_{prefix}exact": exact, f"{name}_{prefix}f1": mean_f1}
            results[f"{name}_total"] = int(members.sum())
    return results


def best_threshold(
    answered: np.ndarray, has_answer: np.ndarray, null_scores: np.ndarray
) -> tuple[float, float]:
    """Return the threshold with the best mean score; questions of equal null score stay together.

    A question is answered if its null score is at most the threshold. Among equally good
    thresholds the lowest is returned.

    Args:
        answered: `[questions]` scores, in [0, 1], of the answers if they are given.
        has_answer: bool `[questions]`, whether there is one; if not, giving none scores 1.
        null_scores: `[questions]`, higher if it is more likely that there is none.

    Returns:
        The best mean score in percent, and the threshold: the null score of the last question
        that is answered, or, if none should be, one below all of them.
    """
    order = np.argsort(null_scores, kind="stable")
    ranked = null_scores[order]
    gains = (answered - ~has_answer)[order]
    totals = np.sum(~has_answer) + np.concatenate([[0.0], np.cumsum(gains)])
    # Before the first, and after the last of each score.
    possible = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])
    thresholds = np.concatenate([[ranked[0] - 1.0], ranked])
    best = int(np.where(possible, totals, -np.inf).argmax())
    return float(100 * totals[best] / len(answered)), float(thresholds[best])
