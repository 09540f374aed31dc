"""The results of albert-predict for multiple choice: the option, with all probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.multiple_choice.question import checked_choices


def predict(model: Any, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
    """Choose among the options of rows of questions by a `MultipleChoice`."""
    asked = (columns[name] for name in ("question", "context", "options"))
    rows = model.predict_proba(*asked, batch_size=batch_size)
    return [_result(row, names) for row, names in zip(rows, columns["options"], strict=True)]


def predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Choose among the same by an export."""
    asked = columns["options"]
    reads_race = export.settings.get("task_name") == "race"
    for number, options in enumerate(asked):
        checked_choices(f"`options`[{number}]", options, "options", empty=reads_race)
    # Questions with as many options at a time: to a model for RACE, an empty one is an option too.
    found: dict[int, Sequence[float]] = {}
    for count in set(map(len, asked)):
        rows = [row for row, options in enumerate(asked) if len(options) == count]
        part = {name: [values[row] for row in rows] for name, values in columns.items()}
        batches = export("serving_default", part)
        probabilities = [each for outputs in batches for each in outputs["probabilities"]]
        found |= zip(rows, probabilities, strict=True)
    return [_result(found[row], options) for row, options in enumerate(asked)]


def _result(probabilities: Sequence[float], options: Sequence[str]) -> dict[str, Any]:
    probabilities = list(probabilities[: len(options)])
    number = int(np.argmax(probabilities))
    return {"prediction": options[number], "option": number, "probabilities": probabilities}
