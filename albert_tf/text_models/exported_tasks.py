"""Predictions of exports (SavedModels), through their signatures on strings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from albert_tf.files import exists
from albert_tf.interop.layout import SAVED_MODEL
from albert_tf.text_models.predict_options import PredictOptions
from albert_tf.text_models.prediction_tasks import (
    Columns,
    Results,
    answered,
    chosen,
    classified,
    entity,
)


def _classify(model: Any, columns: Columns, options: PredictOptions) -> Results:
    signature = "pair" if "text_pair" in columns else "single"
    results: Results = []
    for outputs in _batches(model.signatures[signature], columns, options.batch_size):
        if "value" in outputs:
            results += [{"prediction": float(f"{value:.8g}")} for value in outputs["value"]]
            continue
        for probabilities, labels in zip(outputs["probabilities"], outputs["labels"], strict=True):
            names = [label.decode() for label in labels]
            results.append(classified(probabilities, names, "chosen" in outputs))
    return results


def _answer(model: Any, columns: Columns, options: PredictOptions) -> Results:
    results: Results = []
    for outputs in _batches(model.signatures["serving_default"], columns, options.batch_size):
        names = ("answer", "start", "end", "score")
        for text, start, end, score in zip(*(outputs[name] for name in names), strict=True):
            # In an export, no answer is at -1; in `QuestionAnswerer`, at 0.
            results.append(answered(text.decode(), max(int(start), 0), max(int(end), 0), score))
    return results


def _choose(model: Any, columns: Columns, options: PredictOptions) -> Results:
    widest = max(map(len, columns["options"]))
    padded = [[*names, *[""] * (widest - len(names))] for names in columns["options"]]
    signature = model.signatures["serving_default"]
    rows = [
        row
        for outputs in _batches(signature, {**columns, "options": padded}, options.batch_size)
        for row in outputs["probabilities"]
    ]
    return [chosen(row, names) for row, names in zip(rows, columns["options"], strict=True)]


def _tag(model: Any, columns: Columns, options: PredictOptions) -> Results:
    results: Results = []
    for outputs in _batches(model.signatures["serving_default"], columns, options.batch_size):
        names = ("label", "start", "end", "text", "score")
        for row in zip(*(outputs[name] for name in names), strict=True):
            entities = [
                entity(label.decode(), int(start), int(end), text.decode(), score)
                for label, start, end, text, score in zip(*row, strict=True)
                if start >= 0
            ]
            results.append({"entities": entities})
    return results


class ExportedTask(NamedTuple):
    """A task that an export serves.

    Attributes:
        folder: of its SavedModel in the export.
        predict: function(model, columns, options) that returns the results of every row.
    """

    folder: str
    predict: Callable[[Any, Columns, PredictOptions], Results]


# Keys of `PREDICTION_TASKS`. The others are predicted from the weights in an export.
EXPORTED_TASKS = {
    "classify": ExportedTask("classifier", _classify),
    "answer": ExportedTask("squad", _answer),
    "choose": ExportedTask("choice", _choose),
    "tag": ExportedTask("tagger", _tag),
}


def exported_task(path: str) -> str | None:
    """The task that an export serves, a key of `EXPORTED_TASKS`; None if `path` is none."""
    for name, task in EXPORTED_TASKS.items():
        if exists(os.path.join(path, task.folder, SAVED_MODEL)):
            return name
    return None


def load_export(task: str, path: str) -> Any:
    """Loads the SavedModel of a task.

    Raises:
        InputError: if TensorFlow Text is not installed.
    """
    import tensorflow as tf

    from albert_tf.export.graph_tokenizers import tensorflow_text

    tensorflow_text()  # its operations are in the graph
    return tf.saved_model.load(os.path.join(path, EXPORTED_TASKS[task].folder))


def _batches(signature: Any, columns: Columns, size: int) -> Iterator[dict[str, np.ndarray]]:
    """The outputs of a signature for batches of all rows."""
    import tensorflow as tf

    count = len(next(iter(columns.values())))
    for start in range(0, count, size):
        texts = {name: values[start : start + size] for name, values in columns.items()}
        outputs = signature(**{name: tf.constant(values) for name, values in texts.items()})
        yield {name: value.numpy() for name, value in outputs.items()}
