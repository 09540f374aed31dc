"""The results of albert-predict for taggers: the entities of a text, or its tagged words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def predict(model: Any, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
    """Find the entities in rows of texts by a `TokenClassifier`."""
    rows = model.predict(columns["text"], batch_size=batch_size)
    return [{"entities": [_entity(*each) for each in entities]} for entities in rows]


def predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Find the same by an export."""
    results = []
    for outputs in export("serving_default", columns):
        names = ("label", "start", "end", "text", "score")
        for row in zip(*(outputs[name] for name in names), strict=True):
            entities = [
                _entity(label.decode(), int(start), int(end), text.decode(), score)
                for label, start, end, text, score in zip(*row, strict=True)
                if start >= 0
            ]
            results.append({"entities": entities})
    return results


def _entity(label: str, start: int, end: int, text: str, score: float) -> dict[str, Any]:
    return {"label": label, "start": start, "end": end, "text": text, "score": score}
