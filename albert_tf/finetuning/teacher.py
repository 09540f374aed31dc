"""A teacher: a trained model whose probabilities another one learns (arXiv 1503.02531).

It predicts the training examples once, before training. As it is opened as the model on strings of
its kind, its vocabulary and lengths may differ from the student's. What it predicts is kept in
`output_dir`, for a run that resumes, and for all seeds and folds.
"""

import dataclasses
import functools
import gc
import json
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from scipy.special import softmax

from albert_tf.checkpoints import FOLDERS
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, file_identity, is_folder
from albert_tf.finetuning.context import RunContext
from albert_tf.finetuning.finetuning_options import TaughtOptions
from albert_tf.finetuning.single_run import outputs_of
from albert_tf.finetuning.task import (
    ExampleSet,
    FineTuningTask,
    Outputs,
    cached_arrays,
    cached_file,
)
from albert_tf.hub.names import PICKLES, SAFETENSORS
from albert_tf.logs import counted
from albert_tf.task_kinds import task_kinds
from albert_tf.training.loop import refuse_nan

logger = logging.getLogger(__name__)

# Beginning of the names of files with log-probabilities of a teacher.
PREDICTIONS = "teacher"
_WEIGHTS = (*SAFETENSORS, *PICKLES, *(folder.list_file for folder in FOLDERS.values()))


class Teacher:
    """The teacher of a run, which is opened if its predictions are not kept yet.

    Raises:
        InputError: If the teacher cannot be opened, is for another task, or has other labels.
    """

    def __init__(self, options: TaughtOptions, context: RunContext):
        self._options, self._context = options, context
        (self._train,) = context.of_split("train")
        self._labels = list(context.task.taught_labels())
        examples = json.dumps(self._train.examples).encode()
        # They change when the model in a folder is trained again.
        name = str(options.teacher)
        weights = [name, f"{name}.index", *(f"{name}/{each}" for each in _WEIGHTS)]
        identities = [file_identity(p) for p in weights if exists(p) and not is_folder(p)]
        settings = {PREDICTIONS: options.teacher, "labels": self._labels, "weights": identities}
        self._kept = (options.output_dir, [examples], settings)
        path = cached_file(*self._kept, name=PREDICTIONS)
        is_kept = context.engine.workers.from_chief(lambda: exists(path))
        self._opened = None if is_kept else self._open()

    def _open(self) -> tuple[Any, list[int]]:
        """Return the teacher, and the numbers of its outputs for the student's labels."""
        name, labels = self._options.teacher, self._labels
        kinds = (each for each in task_kinds() if each.settings_file == self._options.settings_file)
        with arguments_renamed(name="teacher"), self._context.engine.devices.scope():
            model = next(kinds).load("text_model").from_preset(name)
            if not model.starts_with_head:
                raise InputError(f"`name`={name}: is not trained for this task")
            its_labels = model.task.taught_labels()
        for plain in (str, str.casefold):  # as in evaluation, capitals do not matter
            numbers = {plain(label): number for number, label in enumerate(its_labels)}
            wanted = [plain(label) for label in labels]
            if len(its_labels) == len(wanted) and numbers.keys() == set(wanted):
                return model, [numbers[label] for label in wanted]
        raise InputError(
            f"`teacher`={name}: has the labels {_shown(its_labels)}, but the training rows have "
            f"{_shown(labels)}"
        )

    def teach(self) -> RunContext:
        """Return the context with the teacher's probabilities among the features to train on."""
        context, options, workers = self._context, self._options, self._context.engine.workers
        predicted = self._predict() if self._opened else None
        kept: Outputs = {}
        for is_turn_of_chief in (True, False):
            with workers.synchronized():
                if workers.is_chief == is_turn_of_chief:
                    # A damaged file is replaced.
                    make = functools.partial(dict, predicted) if predicted else self._predict
                    kept = cached_arrays(*self._kept, make, name=PREDICTIONS)
        self._opened = None
        keras.backend.clear_session()
        gc.collect()
        ends = np.cumsum(kept["shapes"].prod(axis=1))[:-1]
        scaled = kept["log_probabilities"] / np.float32(options.teacher_temperature)
        parts = zip(np.split(scaled, ends), kept["shapes"], strict=True)
        probabilities = [softmax(part.reshape(shape), axis=-1) for part, shape in parts]
        task, sets = context.task, context.sets
        arguments = (options.teacher_weight, options.teacher_temperature)
        task.objective = type(task.objective)(*arguments)  # type: ignore[call-arg]
        taught = taught_set(task, self._train, probabilities)
        return context._replace(sets=[taught if each is self._train else each for each in sets])

    def _predict(self) -> Outputs:
        """Return log-probabilities of all examples, one after the other, and their shapes."""
        options, engine, examples = self._options, self._context.engine, self._train.examples
        logger.info("teacher %s: predicts %s", options.teacher, counted(len(examples), "example"))
        model, order = self._opened or self._open()
        task = model.task
        encoded = ExampleSet("predict", "", examples, task.encode("predict", examples))
        step = engine.prediction_step(model.model, task.outputs, engine.devices)
        size, pad = options.predict_batch_size, engine.devices.is_tpu
        outputs = outputs_of(engine, step, task, encoded, size, pad)
        refuse_nan(outputs, f"`teacher`={self._options.teacher}")
        with arguments_renamed(name="teacher"):
            values = task.log_probabilities(encoded, outputs)
        if order:
            values = [each[:, order] for each in values]
        return {
            "log_probabilities": np.concatenate([each.ravel() for each in values], dtype="float32"),
            "shapes": np.array([each.shape for each in values]),
        }


def taught_set(
    task: FineTuningTask, examples: ExampleSet, probabilities: Sequence[np.ndarray]
) -> ExampleSet:
    """Return a training set of a student's task with a teacher's probabilities among its features.

    They are shaped as the `FineTuningTask.log_probabilities` of each example.
    """
    array = task.teacher_feature(examples.features, probabilities)
    examples.features.arrays["teacher_probabilities"] = array.astype(np.float32)
    return dataclasses.replace(examples, taught=probabilities)


def _shown(labels: Sequence[str]) -> str:
    return ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
