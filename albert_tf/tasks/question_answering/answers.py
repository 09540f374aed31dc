"""The answers of a model to questions, over all windows of each, and their files."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from albert_tf.files import to_json, write_text
from albert_tf.logs import counted
from albert_tf.tasks.question_answering.spans import Candidate, SpanFinder, best_candidates
from albert_tf.tasks.question_answering.windows import Window

logger = logging.getLogger(__name__)

# Outputs of a window and score of the question's best span -> null score.
NullScore = Callable[[dict[str, np.ndarray], float], float]


def null_of_logits(outputs: dict[str, np.ndarray], best: float) -> float:
    """Score of `[CLS]` as start and end, minus that of the best span."""
    return float(outputs["start_logits"][0]) + float(outputs["end_logits"][0]) - best


def null_of_class(outputs: dict[str, np.ndarray], best: float) -> float:
    """Return output of the answerability classifier, regardless of the best span."""
    return float(outputs["cls_logits"])


class Prediction(NamedTuple):
    """A model's answer to a question.

    Attributes:
        candidates: distinct texts, best first; empty if the context contains none.
        null_score: higher if it is more likely that there is no answer; 7 significant digits.
    """

    candidates: list[Candidate]
    null_score: float

    def answer(self, threshold: float | None = None) -> str:
        """Return the best candidate; "" if there is none or the null score is too high."""
        if not self.candidates or (threshold is not None and self.null_score > threshold):
            return ""
        return self.candidates[0].text

    def nbest(self) -> list[dict[str, str | float]]:
        """Return the candidates and their relative probabilities, for a JSON file."""
        if not self.candidates:
            return []
        probabilities = softmax(np.array([candidate.score for candidate in self.candidates]))
        return [
            {
                "text": candidate.text,
                "probability": float(probability),
                "start_log_prob": candidate.start_score,
                "end_log_prob": candidate.end_score,
            }
            for candidate, probability in zip(self.candidates, probabilities, strict=True)
        ]


def predict_answers(
    windows: Sequence[Window],
    outputs: dict[str, np.ndarray],
    find: SpanFinder,
    null: NullScore,
    max_answer_length: int,
    count: int,
) -> dict[str, Prediction]:
    """Return a model's answer to each question, by id.

    Args:
        windows: those of a question next to each other.
        outputs: of the model, `[windows, ...]`.
        find: the spans of a window.
        null: the null score of a window; the lowest over the windows of a question counts.
        max_answer_length: maximum tokens in an answer.
        count: maximum candidates of a question.
    """
    rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    pairs = zip(windows, rows, strict=True)
    predictions = {}
    for id, group in itertools.groupby(pairs, key=lambda pair: pair[0].question.id):
        own, values = zip(*group, strict=True)
        question = own[0].question
        candidates = best_candidates(question, own, values, find, max_answer_length, count)
        best = candidates[0].score if candidates else 0.0
        least = min(null(value, best) for value in values)
        predictions[id] = Prediction(candidates, float(f"{least:.7g}"))
    return predictions


def write_answers(folder: str, predictions: dict[str, Prediction], threshold: float | None) -> None:
    """Write `predictions.json`, `nbest_predictions.json` and, with a threshold, `null_odds.json`.

    Args:
        folder: where the files go.
        predictions: by question id.
        threshold: null score above which a question has no answer; None if all have one.
    """
    answers = {id: each.answer(threshold) for id, each in predictions.items()}
    contents = {
        "predictions.json": answers,
        "nbest_predictions.json": {id: each.nbest() for id, each in predictions.items()},
    }
    if threshold is not None:
        contents["null_odds.json"] = {id: each.null_score for id, each in predictions.items()}
    for name, content in contents.items():
        text = to_json(content, indent=4, ensure_ascii=False)
        write_text(f"{folder}/{name}", text + "\n")
    logger.info("%s in %s/predictions.json", counted(len(answers), "answer"), folder)
    if threshold is not None:
        without = sum(not answer for answer in answers.values())
        logger.info("%s of them empty, with a null threshold of %.7g", f"{without:,}", threshold)
