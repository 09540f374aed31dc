"""The results of albert-predict for questions: the answer, and where it is in the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def predict(model: Any, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
    """Answer rows of questions by a `QuestionAnswerer`."""
    answers = model.predict(columns["question"], columns["context"], batch_size=batch_size)
    return [_result(each.text, each.start, each.end, each.score) for each in answers]


def predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Answer the same by an export."""
    results = []
    for outputs in export("serving_default", columns):
        names = ("answer", "start", "end", "score")
        for text, start, end, score in zip(*(outputs[name] for name in names), strict=True):
            # In an export, no answer is at -1; in `QuestionAnswerer`, at 0.
            results.append(_result(text.decode(), max(int(start), 0), max(int(end), 0), score))
    return results


def _result(text: str, start: int, end: int, score: float) -> dict[str, Any]:
    return {"prediction": text, "start": start, "end": end, "score": score}
