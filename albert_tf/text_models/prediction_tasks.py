"""What albert-predict predicts: a row of the table per task.

Every task maps columns of texts to a dictionary of results per row.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.interop.layout import CHOICE_FILE
from albert_tf.text_models.predict_options import PredictOptions

if TYPE_CHECKING:
    from albert_tf.text_models.presets import Preset

# Input -> its values, a text (of options: a list of texts) per row; and a dictionary per row.
Columns = dict[str, list]
Results = list[dict[str, Any]]


class PredictionTask(NamedTuple):
    """What to predict.

    Attributes:
        model: "module:class" of the text model, which is imported once there is work to do.
        inputs: names of the texts that it reads.
        optional: names of further texts that a model may read.
        predict: function(model, columns, options) that returns the results of every row.
        heads: kinds of models, keys of `MODEL_KINDS`, for which it is chosen.
    """

    model: str
    inputs: tuple[str, ...]
    optional: tuple[str, ...]
    predict: Callable[[Any, Columns, PredictOptions], Results]
    heads: tuple[str, ...] = ()


def short(value: Any) -> float:
    """A number with eight significant digits, as `run_classifier.py` writes probabilities."""
    return float(f"{value:.8g}")


def texts_or_pairs(columns: Columns) -> list:
    """Texts, or tuples of two texts."""
    if "text_pair" not in columns:
        return columns["text"]
    return list(zip(columns["text"], columns["text_pair"], strict=True))


def _classify(model, columns: Columns, options: PredictOptions) -> Results:
    texts = texts_or_pairs(columns)
    target = model.task.target
    if target.kind == "regression":
        numbers = model.predict(texts, batch_size=options.batch_size)
        return [{"prediction": short(number)} for number in numbers]
    rows = model.predict_proba(texts, batch_size=options.batch_size)
    return [classified(row, model.labels, target.kind == "multi_label") for row in rows]


def classified(
    probabilities: Sequence[float], labels: Sequence[Any], multi_label: bool
) -> dict[str, Any]:
    """The result of a text from the probabilities of all labels."""
    names = list(map(str, labels))
    chosen: Any = names[int(np.argmax(probabilities))]
    if multi_label:
        chosen = [name for name, p in zip(names, probabilities, strict=True) if p >= 0.5]
    by_name = dict(zip(names, map(short, probabilities), strict=True))
    return {"prediction": chosen, "probabilities": by_name}


def _tag(model, columns: Columns, options: PredictOptions) -> Results:
    rows = model.predict(columns["text"], batch_size=options.batch_size)
    return [{"entities": [entity(*each) for each in entities]} for entities in rows]


def entity(label: str, start: int, end: int, text: str, score: float) -> dict[str, Any]:
    """An entity of a text."""
    return {"label": label, "start": start, "end": end, "text": text, "score": short(score)}


def _answer(model, columns: Columns, options: PredictOptions) -> Results:
    answers = model.predict(columns["question"], columns["context"], batch_size=options.batch_size)
    return [answered(each.text, each.start, each.end, each.score) for each in answers]


def answered(text: str, start: int, end: int, score: float) -> dict[str, Any]:
    """The result of a question."""
    return {"prediction": text, "start": start, "end": end, "score": short(score)}


def _choose(model, columns: Columns, options: PredictOptions) -> Results:
    rows = model.predict_proba(
        columns["question"], columns["context"], columns["options"], batch_size=options.batch_size
    )
    return [chosen(row, names) for row, names in zip(rows, columns["options"], strict=True)]


def chosen(probabilities: Sequence[float], options: Sequence[str]) -> dict[str, Any]:
    """The result of a question with options."""
    probabilities = list(map(short, probabilities[: len(options)]))
    number = int(np.argmax(probabilities))
    return {"prediction": options[number], "option": number, "probabilities": probabilities}


def _fill_mask(model, columns: Columns, options: PredictOptions) -> Results:
    filled = model.fill_mask(
        columns["text"], options.top_k, options.targets or None, options.batch_size
    )
    results = []
    for answer in filled:
        masks = answer if isinstance(answer[0], list) else [answer]
        candidates = [
            [{"text": each.text, "probability": short(each.probability)} for each in mask]
            for mask in masks
        ]
        best = [mask[0].text for mask in masks]
        results.append({"prediction": best, "candidates": candidates})
    return results


def _embed(model, columns: Columns, options: PredictOptions) -> Results:
    vectors = model.encode(
        columns["text"],
        options.pooling,
        options.layer,
        options.batch_size,
        options.normalize,
        options.max_length,
    )
    return [{"vector": vector} for vector in vectors]


_MODULES = "albert_tf.text_models"

PREDICTION_TASKS: dict[str, PredictionTask] = {
    "classify": PredictionTask(
        f"{_MODULES}.text_classifier:TextClassifier",
        ("text",),
        ("text_pair",),
        _classify,
        heads=("classifier",),
    ),
    "tag": PredictionTask(
        f"{_MODULES}.token_classifier:TokenClassifier",
        ("text",),
        (),
        _tag,
        heads=("tagger",),
    ),
    "answer": PredictionTask(
        f"{_MODULES}.question_answerer:QuestionAnswerer",
        ("question", "context"),
        (),
        _answer,
        heads=("span", "conditional_span"),
    ),
    "choose": PredictionTask(
        f"{_MODULES}.multiple_choice:MultipleChoice",
        ("question", "context", "options"),
        (),
        _choose,
        heads=("choice",),
    ),
    "fill_mask": PredictionTask(
        f"{_MODULES}.masked_lm:MaskedLM", ("text",), (), _fill_mask, heads=("pretraining",)
    ),
    "embed": PredictionTask(
        f"{_MODULES}.sentence_encoder:SentenceEncoder", ("text",), (), _embed, heads=("encoder",)
    ),
}


def task_of(preset: Preset) -> str:
    """The task of a model, by its head and the files next to it."""
    is_choice = exists(os.path.join(preset.folder, CHOICE_FILE))
    head = "choice" if preset.head == "classifier" and is_choice else preset.head
    return next(name for name, task in PREDICTION_TASKS.items() if head in task.heads)


def load_model(task: str, options: PredictOptions) -> Any:
    """Creates the text model of a task.

    Raises:
        InputError: as of its `from_preset`.
    """
    module, name = PREDICTION_TASKS[task].model.split(":")
    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        return getattr(importlib.import_module(module), name).from_preset(
            options.model,
            vocabulary=options.spm_model_file,
            do_lower_case=options.do_lower_case,
            dtype=options.dtype,
        )


def check_head(task: str, preset: Preset) -> None:
    """Raises InputError if predictions would come from a new head, with random weights."""
    found = task_of(preset)
    outputs = preset.weights.tensors.get("classifier/output_bias")
    # Which head a single score belongs to, converted weights do not say.
    may_choose = task == "choose" and outputs is not None and outputs.shape == (1,)
    if task not in (found, "embed") and not may_choose:
        raise InputError(
            f"`task`={task}: the weights of {preset.name} are of kind {preset.head}; must be "
            f"{' or '.join(dict.fromkeys([found, 'embed']))}"
        )
