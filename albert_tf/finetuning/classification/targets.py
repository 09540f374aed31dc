"""What a classifier's outputs stand for: one label, a number, or any number of labels."""

from __future__ import annotations

import abc
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import metrics

from albert_tf.errors import InputError
from albert_tf.finetuning.classification.tasks import Example, Task
from albert_tf.finetuning.metrics import score, sigmoid, softmax
from albert_tf.interop.companions import LABELS_FILE, TARGET_FILE
from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    Objective,
    RegressionObjective,
)


class Target(abc.ABC):
    """Labels of a table as numbers for the model, and the model's outputs as labels.

    Made from the training rows by `learn`, or from `target.json` and `labels.json` beside the
    checkpoints by `restore`.

    Args:
        task: the task.
        labels: the labels in the order of their ids; () for numbers.
        spread: standard deviation of the training labels, where these are numbers.

    Attributes:
        kind: its key in `TARGETS`.
        objective: what training minimises.
        feature: name of the labels among the features.
        outputs: how many outputs the model has.
    """

    kind: str
    objective: Objective
    feature: str

    def __init__(self, task: Task, labels: tuple[str, ...] = (), spread: float = 0.0):
        self.task = task
        self.labels = labels
        self.spread = spread
        self.outputs = len(labels)

    @classmethod
    @abc.abstractmethod
    def learn(cls, task: Task, examples: Sequence[Example]) -> Target:
        """From the training rows.

        Raises:
            InputError: a label is not what it should be, or there is only one.
        """

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The labels as `features[self.feature]`.

        Raises:
            InputError: a label cannot be; the message names file and line.
        """

    @abc.abstractmethod
    def values(self, logits: np.ndarray) -> np.ndarray:
        """`[examples, ...]` probabilities, or numbers, of `test_results.tsv`."""

    @abc.abstractmethod
    def answers(self, logits: np.ndarray) -> list[str]:
        """The label of every example, as text."""

    @abc.abstractmethod
    def score(self, truth: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """The task's scores and `eval_loss`; `truth` as of `encode`."""

    def submitted(self, logits: np.ndarray) -> list[str]:
        """The label of every example, as GLUE's server takes it."""
        return self.answers(logits)

    def collapsed(self, logits: np.ndarray) -> str | None:
        """A sentence if the predictions are all the same, as of a model that has not learnt."""
        answers = self.answers(logits)
        if len(answers) < 2 or len(set(answers)) > 1:
            return None
        return f"every prediction is {answers[0]!r}"

    def description(self, **settings: Any) -> dict[str, str]:
        """File name -> text of what `restore` reads; `settings` stand there for exports."""
        told = {"kind": self.kind, "task_name": self.task.name, "spread": self.spread, **settings}
        files = {TARGET_FILE: json.dumps(told) + "\n"}
        if self.labels:
            files[LABELS_FILE] = json.dumps(self.labels, ensure_ascii=False) + "\n"
        return files


class OneLabel(Target):
    """One of some labels."""

    kind = "classification"
    feature = "label_ids"

    def __init__(self, task: Task, labels: tuple[str, ...] = (), spread: float = 0.0):
        super().__init__(task, labels, spread)
        self.objective = ClassificationObjective()

    @classmethod
    def learn(cls, task, examples):
        labels = task.labels or _in_order({example.label for example in examples})
        if len(labels) < 2:
            raise InputError(
                f"{_file_of(examples)}: every row has the label {labels[0]!r}; two at least are "
                "needed"
            )
        return cls(task, labels)

    def encode(self, examples):
        ids = {label: number for number, label in enumerate(self.labels)}
        return np.array([_id(ids, example, example.label) for example in examples], np.int32)

    def values(self, logits):
        return softmax(logits)

    def answers(self, logits):
        return [self.labels[guess] for guess in logits.argmax(axis=-1)]

    def score(self, truth, logits):
        loss = metrics.log_loss(truth, softmax(logits), labels=np.arange(logits.shape[-1]))
        return {
            **score(self.task.metrics, truth, logits.argmax(axis=-1)),
            "eval_loss": float(loss),
        }


class Number(Target):
    """A number."""

    kind = "regression"
    feature = "label_values"

    def __init__(self, task: Task, labels: tuple[str, ...] = (), spread: float = 0.0):
        super().__init__(task, (), spread)
        self.objective = RegressionObjective()
        self.outputs = 1

    @classmethod
    def learn(cls, task, examples):
        values = cls(task).encode(examples)
        if np.ptp(values) == 0:
            raise InputError(
                f"{_file_of(examples)}: every row has the label {values[0]:g}; two different ones "
                "at least are needed"
            )
        return cls(task, spread=float(values.astype(np.float64).std()))

    def encode(self, examples):
        return np.array([_number(example) for example in examples], np.float32)

    def values(self, logits):
        return logits

    def answers(self, logits):
        return [f"{value:.8g}" for value in logits[:, 0]]

    def submitted(self, logits):
        return [
            f"{min(max(float(value), 0.0), 5.0):.6g}" for value in logits[:, 0]
        ]  # STS-B: 0 to 5

    def score(self, truth, logits):
        values = logits[:, 0].astype(np.float64)
        loss = metrics.mean_squared_error(truth, values)
        return {**score(self.task.metrics, truth, values), "eval_loss": float(loss)}

    def collapsed(self, logits):
        values = logits[:, 0].astype(np.float64)
        if len(values) < 2 or values.std() >= 0.01 * self.spread:
            return None
        return f"every prediction is about {values.mean():.4g}"


class SeveralLabels(Target):
    """Any number of some labels: those with a probability of 0.5 or more."""

    kind = "multi_label"
    feature = "label_sets"

    def __init__(self, task: Task, labels: tuple[str, ...] = (), spread: float = 0.0):
        super().__init__(task, labels, spread)
        self.objective = MultiLabelObjective()

    @classmethod
    def learn(cls, task, examples):
        labels = _in_order({label for example in examples for label in _split(task, example)})
        if not labels:
            raise InputError(f"{_file_of(examples)}: no row has a label")
        return cls(task, labels)

    def encode(self, examples):
        ids = {label: number for number, label in enumerate(self.labels)}
        sets = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in enumerate(examples):
            for label in _split(self.task, example):
                sets[row, _id(ids, example, label)] = 1
        return sets

    def values(self, logits):
        return sigmoid(logits)

    def answers(self, logits):
        return [
            self.task.label_separator.join(
                label for label, one in zip(self.labels, row, strict=True) if one
            )
            for row in logits >= 0
        ]

    def score(self, truth, logits):
        wide = logits.astype(np.float64)
        loss = np.mean(np.logaddexp(0, wide) - truth * wide)
        guesses = (logits >= 0).astype(np.int32)
        scores = score(self.task.metrics, truth.astype(np.int32), guesses)
        return {**scores, "eval_loss": float(loss)}


TARGETS: dict[str, type[Target]] = {each.kind: each for each in (OneLabel, Number, SeveralLabels)}


def restore(task: Task, told: dict[str, Any] | None, labels: Sequence[str]) -> Target:
    """What a trained model's outputs stand for.

    Args:
        task: the task.
        told: what `target.json` holds; None where there is none, of a plain classifier.
        labels: what `labels.json` holds.
    """
    told = told or {}
    return TARGETS[told.get("kind", "classification")](task, tuple(labels), told.get("spread", 0.0))


def _in_order(labels: set[str]) -> tuple[str, ...]:
    """Sorted: numbers by their value, anything else as text."""
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _file_of(examples: Sequence[Example]) -> str:
    return examples[0].location.rsplit(":", 1)[0]


def _id(ids: dict[str, int], example: Example, label: str) -> int:
    if label not in ids:
        shown = ", ".join(list(ids)[:10]) + (", ..." if len(ids) > 10 else "")
        raise InputError(
            f"{example.location}: label {label!r} is none of the training labels ({shown})"
        )
    return ids[label]


def _number(example: Example) -> float:
    try:
        value = float(example.label)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{example.location}: label {example.label!r} is not a number")
    return value


def _split(task: Task, example: Example) -> list[str]:
    """The labels of a row; each once."""
    labels = example.label
    if isinstance(labels, str):
        labels = labels.split(task.label_separator)
    return list(dict.fromkeys(label.strip() for label in labels if label.strip()))
