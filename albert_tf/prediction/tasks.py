"""What albert-predict predicts: the kinds of fine-tuning tasks, masks and vectors.

Every task maps columns of texts to a dictionary of results per row.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, text_of, without_magic
from albert_tf.interop.file_names import SAVED_MODEL, read_export
from albert_tf.prediction.options import PredictOptions
from albert_tf.task_kinds import PRETRAINING, TaskKind, task_kinds

if TYPE_CHECKING:
    from albert_tf.interop.loading import Preset

# Needs no head of its own: any weights compute vectors.
EMBED = "embed"

# Input -> its values, one per row; and a dictionary per row.
Columns = dict[str, list]
Results = list[dict[str, Any]]


class PredictionTask(NamedTuple):
    """What to predict.

    Attributes:
        model: returns the class of the text model, which is imported once there is work to do; it
            has `_predict_rows`, see `TaskKind.text_model`.
        inputs: names of what it reads -> type; see `TaskKind`.
        optional: those of them that some models do not read.
        options: flags that `_predict_rows` takes.
        heads: heads of models for which it is chosen.
    """

    model: Callable[[], Any]
    inputs: Mapping[str, type]
    optional: tuple[str, ...]
    options: tuple[str, ...]
    heads: tuple[str, ...]


def _masked_lm() -> Any:
    from albert_tf.text_models.masked_lm import MaskedLM

    return MaskedLM


_KINDS = {kind.predict_task: kind for kind in task_kinds() if kind.text_model}

PREDICTION_TASKS = {
    name: PredictionTask(
        functools.partial(kind.load, "text_model"),
        kind.inputs,
        kind.optional_inputs,
        kind.predict_options,
        tuple(head.name for head in kind.heads),
    )
    for name, kind in _KINDS.items()
}
PREDICTION_TASKS["fill_mask"] = PredictionTask(
    _masked_lm, {"text": str}, (), ("top_k", "targets"), (PRETRAINING.name,)
)


def rounded(value: Any) -> Any:
    """Round the numbers in results to eight digits, as run_classifier.py writes probabilities."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(rounded, value))
    return float(f"{value:.8g}") if isinstance(value, float | np.floating) else value


def _task_of(preset: Preset) -> str:
    """Return the task of a model, by its head and the files next to it."""
    found = (name for name, task in PREDICTION_TASKS.items() if preset.head in task.heads)
    return next(found, EMBED)


def load_model(options: PredictOptions) -> tuple[str, Callable[[Columns], Results]]:
    """Return the task of a model, and a function of columns that returns the results of every row.

    Raises:
        InputError: As of `from_preset` of the text model; or if predictions would come from a new
            head, with random weights.
    """
    from albert_tf.interop.loading import open_preset  # loads Keras

    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        vocabulary, lower = options.spm_model_file, options.do_lower_case
        preset = open_preset(options.model, vocabulary, lower)
        name = _task_of(preset) if options.task == "auto" else options.task
        task = PREDICTION_TASKS[name]
        # Which of several heads the weights have, converted ones do not say.
        if name != EMBED and not set(preset.heads).intersection(task.heads):
            raise InputError(
                f"`task`={name}: the weights of {preset.name} are of kind {preset.head}; must be "
                f"{' or '.join(dict.fromkeys([_task_of(preset), EMBED]))}"
            )
        model = task.model().from_preset(
            options.model, vocabulary=vocabulary, do_lower_case=lower, dtype=options.dtype
        )
    more = {each: getattr(options, each) for each in task.options}
    return name, functools.partial(model._predict_rows, batch_size=options.batch_size, **more)


def exported_task(path: str) -> str | None:
    """Return the task of `PREDICTION_TASKS` that an export serves; None if `path` is none."""
    for name, kind in _KINDS.items():
        if kind.export and exists(os.path.join(path, kind.export_folder, SAVED_MODEL)):
            return name
    return None


class Export:
    """The SavedModel of a task, which predicts rows in batches; the options name its folder.

    Attributes:
        settings: how the model reads texts, by name; {} for an export without `export.json`.
        labels: text of a label -> the same, with the number that it stands for.

    Raises:
        InputError: If TensorFlow Text is not installed, or the export is damaged.
    """

    def __init__(self, kind: TaskKind, options: PredictOptions):
        import tensorflow as tf

        from albert_tf.export.graph_tokenizers import tensorflow_text

        tensorflow_text()  # its operations are in the graph
        made_from = read_export(options.model).get("made_from", {})
        self.settings = made_from.get("task") or {}
        self.labels = {label: label for label in map(text_of, made_from.get("labels") or ())}
        self._model = tf.saved_model.load(
            without_magic(os.path.join(options.model, kind.export_folder))
        )
        self._batch_size = options.batch_size

    def __call__(self, signature: str, columns: Columns) -> Iterator[dict[str, np.ndarray]]:
        """Yield the outputs of a signature for batches of all rows."""
        import tensorflow as tf

        count, size = len(next(iter(columns.values()))), self._batch_size
        for start in range(0, count, size):
            part = {name: tf.constant(each[start : start + size]) for name, each in columns.items()}
            outputs = self._model.signatures[signature](**part)
            yield {name: value.numpy() for name, value in outputs.items()}


def load_export(task: str, options: PredictOptions) -> Callable[[Columns], Results]:
    """Return a function of columns that returns the results of every row by an `Export`."""
    kind = _KINDS[task]
    for name in kind.predict_options:
        if (value := getattr(options, name)) != PredictOptions.__dataclass_fields__[name].default:
            raise InputError(f"`{name}`={value}: is fixed in an export; name the trained folder")
    return functools.partial(kind.load("text_model")._predict_exported, Export(kind, options))
