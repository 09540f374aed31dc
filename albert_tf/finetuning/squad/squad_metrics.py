"""Exact match and F1 of answers, as the official evaluations of SQuAD 1.1 and 2.0 define them."""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.finetuning.squad.squad_files import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, articles (a, an, the) and superfluous white space."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 where two answers are the same when normalised, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def f1(prediction: str, answer: str, version_2: bool) -> float:
    """Harmonic mean of precision and recall over the words of two normalised answers.

    Where one of them has no words, 2.0 gives 1 if the other has none either; 1.1 gives 0.
    """
    words, truth = normalize_answer(prediction).split(), normalize_answer(answer).split()
    if not words or not truth:
        return float(version_2 and words == truth)
    common = (collections.Counter(words) & collections.Counter(truth)).total()
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(truth)
    return 2 * precision * recall / (precision + recall)


def question_scores(question: Question, prediction: str, version_2: bool) -> tuple[float, float]:
    """Exact match and F1 of a prediction, each the best over the answers.

    In 2.0, answers without words do not count, and where none is left "" is the right one.
    """
    answers = [answer.text for answer in question.answers]
    if version_2:
        answers = [answer for answer in answers if normalize_answer(answer)] or [""]
    return (
        max(exact_match(prediction, answer) for answer in answers),
        max(f1(prediction, answer, version_2) for answer in answers),
    )


def evaluate(
    questions: Sequence[Question], predictions: Mapping[str, str], version_2: bool
) -> dict[str, float]:
    """Results in percent: `exact_match`, `f1`, and `total`, the number of questions.

    In 2.0 also of the questions that have an answer and of those that have none, as
    `HasAns_exact`, `HasAns_f1`, `HasAns_total`, `NoAns_exact` and so on, where there are any.

    Args:
        questions: with their answers.
        predictions: question id -> answer, "" for none.
        version_2: whether questions may have no answer.
    """
    scores = np.array([question_scores(q, predictions[q.id], version_2) for q in questions])
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, mean_f1 = (100 * scores.mean(axis=0)).tolist()
    results = {"exact_match": exact, "f1": mean_f1, "total": len(questions)}
    groups = {"HasAns": has_answer, "NoAns": ~has_answer} if version_2 else {}
    for name, members in groups.items():
        if members.any():
            exact, mean_f1 = (100 * scores[members].mean(axis=0)).tolist()
            results |= {f"{name}_exact": exact, f"{name}_f1": mean_f1}
            results[f"{name}_total"] = int(members.sum())
    return results


def best_threshold(
    answered: np.ndarray, has_answer: np.ndarray, null_scores: np.ndarray
) -> tuple[float, float]:
    """The threshold at which the mean score is best, with questions of equal score together.

    A question is answered where its null score is at most the threshold. Of several thresholds
    that do as well, it is the lowest.

    Args:
        answered: `[questions]` scores, in [0, 1], of the answers if they are given.
        has_answer: bool `[questions]`, whether there is one; giving none scores 1 where not.
        null_scores: `[questions]`, the higher the surer that there is none.

    Returns:
        The best mean score in percent, and the threshold: the null score of the last question
        that is answered, or, where none should be, one below all of them.
    """
    order = np.argsort(null_scores, kind="stable")
    ranked = null_scores[order]
    gains = (answered - ~has_answer)[order]
    totals = np.sum(~has_answer) + np.concatenate([[0.0], np.cumsum(gains)])
    # Before the first, and after each that is the last of its score.
    possible = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])
    thresholds = np.concatenate([[ranked[0] - 1.0], ranked])
    best = int(np.where(possible, totals, -np.inf).argmax())
    return float(100 * totals[best] / len(answered)), float(thresholds[best])
