"""The results of albert-predict for classifiers: a label with the probabilities, or a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import value_of
from albert_tf.tasks.classification.options import TEXTS


def predict(model: Any, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
    """Predict rows of texts, or of pairs of texts, by a `TextClassifier`."""
    texts = columns["text"]
    if "text_pair" in columns:
        texts = list(zip(texts, columns["text_pair"], strict=True))
    target = model.task.target.kind
    if target == "regression":
        return [{"prediction": n} for n in model.predict(texts, batch_size=batch_size)]
    rows = model.predict_proba(texts, batch_size=batch_size)
    return [_result(row, model.task.target.labels, target == "multi_label") for row in rows]


def predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Predict the same by an export."""
    pairs, trained_on_pairs = "text_pair" in columns, export.settings.get("pairs")
    if trained_on_pairs not in (None, pairs):
        raise InputError(f"`texts`: the model reads {TEXTS[trained_on_pairs]}, not {TEXTS[pairs]}")
    results: list[dict[str, Any]] = []
    for outputs in export("pair" if pairs else "single", columns):
        if "value" in outputs:
            results += [{"prediction": value} for value in outputs["value"]]
            continue
        for probabilities, labels in zip(outputs["probabilities"], outputs["labels"], strict=True):
            names = [export.labels.get(name, name) for name in (each.decode() for each in labels)]
            results.append(_result(probabilities, names, "chosen" in outputs))
    return results


def _result(
    probabilities: Sequence[float], names: Sequence[str], multi_label: bool
) -> dict[str, Any]:
    labels = list(map(value_of, names))
    if len(set(map(type, labels))) > 1:  # columns of Parquet files have one type
        labels = list(names)
    chosen: Any = labels[int(np.argmax(probabilities))]
    if multi_label:
        chosen = [label for label, p in zip(labels, probabilities, strict=True) if p >= 0.5]
    return {"prediction": chosen, "probabilities": dict(zip(names, probabilities, strict=True))}
