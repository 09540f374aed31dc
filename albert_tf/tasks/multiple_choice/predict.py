"""The results of albert-predict for multiple choice: the option, with all probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def predict(model: Any, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
    """Choose among the options of rows of questions by a `MultipleChoice`."""
    asked = (columns[name] for name in ("question", "context", "options"))
    rows = model.predict_proba(*asked, batch_size=batch_size)
    return [_result(row, names) for row, names in zip(rows, columns["options"], strict=True)]


def predict_exported(call: Callable, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Choose among the same by an export."""
    widest = max(map(len, columns["options"]))
    padded = [[*names, *[""] * (widest - len(names))] for names in columns["options"]]
    batches = call("serving_default", {**columns, "options": padded})
    rows = [row for outputs in batches for row in outputs["probabilities"]]
    return [_result(row, names) for row, names in zip(rows, columns["options"], strict=True)]


def _result(probabilities: Sequence[float], options: Sequence[str]) -> dict[str, Any]:
    probabilities = list(probabilities[: len(options)])
    number = int(np.argmax(probabilities))
    return {"prediction": options[number], "option": number, "probabilities": probabilities}
