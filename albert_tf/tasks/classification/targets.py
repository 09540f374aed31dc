"""What a classifier's outputs mean: one label, a number, or any number of labels."""

from __future__ import annotations

import abc
import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax

from albert_tf.errors import InputError
from albert_tf.finetuning.averaging import mean_log_odds, mean_log_probabilities
from albert_tf.finetuning.metrics import METRICS, score
from albert_tf.interop.companions import LABELS_FILE, TARGET_FILE
from albert_tf.modeling.losses import (
    ClassificationObjective,
    MultiLabelObjective,
    Objective,
    RegressionObjective,
)
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Example,
    normalized_label,
)


class Target(abc.ABC):
    """Translates labels of a table to numbers for the model, and model outputs to labels.

    Created from the training rows by `learn`, or from `target.json` and `labels.json` next to the
    checkpoints by `restore`.

    Args:
        dataset: whose labels they are.
        labels: the labels in the order of their ids; () for numbers.
        spread: standard deviation of the training labels, if these are numbers.

    Attributes:
        kind: its key in `TARGETS`.
        objective: what training minimises.
        feature: name of the labels among the features.
        outputs: number of outputs of the model.
    """

    kind: str
    objective: Objective
    feature: str

    def __init__(
        self, dataset: ClassificationDataset, labels: tuple[str, ...] = (), spread: float = 0.0
    ):
        self.dataset = dataset
        self.labels = labels
        self.spread = spread
        self.outputs = len(labels)

    @classmethod
    @abc.abstractmethod
    def learn(cls, dataset: ClassificationDataset, examples: Sequence[Example]) -> Target:
        """Creates the target from the training rows.

        Raises:
            InputError: a label is invalid, or there is only one.
        """

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The labels as `features[self.feature]`.

        Raises:
            InputError: a label is invalid; the message names file and line.
        """

    @abc.abstractmethod
    def values(self, logits: np.ndarray) -> np.ndarray:
        """`[examples, ...]` probabilities, or numbers, as in `test_results.tsv`."""

    @abc.abstractmethod
    def answers(self, logits: np.ndarray) -> list[Any]:
        """The label of every example: a text, a number, or a list of texts."""

    def decode(self, logits: np.ndarray) -> list[str]:
        """The label of every example, as text."""
        return self.answers(logits)

    @abc.abstractmethod
    def average(self, logits: Sequence[np.ndarray]) -> np.ndarray:
        """Logits whose `values` are the mean of those of several models."""

    @abc.abstractmethod
    def score(self, truth: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """The data set's metrics and `eval_loss`; `truth` as from `encode`."""

    @abc.abstractmethod
    def majority(self, truth: np.ndarray) -> tuple[str, np.ndarray]:
        """What is always predicted without a model, and the logits of this for every example."""

    def submitted(self, logits: np.ndarray) -> list[str]:
        """The label of every example, as the GLUE server expects it."""
        return self.decode(logits)

    def collapse(self, logits: np.ndarray) -> str | None:
        """Describes predictions that are all the same; None if they are not."""
        predicted = self.decode(logits)
        if len(predicted) < 2 or len(set(predicted)) > 1:
            return None
        return f"every prediction is {predicted[0]!r}"

    def companion_files(self, **settings: Any) -> dict[str, str]:
        """File name -> text that `restore` reads; `settings` are for exports."""
        saved = {
            "kind": self.kind,
            "task_name": self.dataset.name,
            "spread": self.spread,
            **settings,
        }
        files = {TARGET_FILE: json.dumps(saved) + "\n"}
        if self.labels:
            files[LABELS_FILE] = json.dumps(self.labels, ensure_ascii=False) + "\n"
        return files


class OneLabel(Target):
    """One of several labels."""

    kind = "classification"
    objective = ClassificationObjective()
    feature = "label_ids"

    @classmethod
    def learn(cls, dataset, examples):
        labels = dataset.labels or _in_order({example.label for example in examples})
        if len(labels) < 2:
            raise InputError(
                f"{_file_of(examples)}: every row has the label {labels[0]!r}; at least two labels "
                "are required"
            )
        return cls(dataset, labels)

    def encode(self, examples):
        ids = _ids_of(self.labels)
        return np.array([_id(ids, example, example.label) for example in examples], np.int32)

    def values(self, logits):
        return softmax(logits.astype(np.float64), axis=-1)

    def average(self, logits):
        return mean_log_probabilities(logits)

    def answers(self, logits):
        return [self.labels[label_id] for label_id in logits.argmax(axis=-1)]

    def majority(self, truth):
        label_id = np.bincount(truth).argmax()
        logits = np.tile(np.eye(self.outputs)[label_id], (len(truth), 1))
        return f"always {self.labels[label_id]!r}", logits

    def score(self, truth, logits):
        from sklearn import metrics  # slow to load, and needed after training

        loss = metrics.log_loss(truth, self.values(logits), labels=np.arange(logits.shape[-1]))
        return {
            **score(self.dataset.metrics, truth, logits.argmax(axis=-1)),
            "eval_loss": float(loss),
        }


class Number(Target):
    """A number."""

    kind = "regression"
    objective = RegressionObjective()
    feature = "label_values"

    def __init__(
        self, dataset: ClassificationDataset, labels: tuple[str, ...] = (), spread: float = 0.0
    ):
        super().__init__(dataset, (), spread)
        self.outputs = 1

    @classmethod
    def learn(cls, dataset, examples):
        values = cls(dataset).encode(examples)
        if np.ptp(values) == 0:
            raise InputError(
                f"{_file_of(examples)}: every row has the label {values[0]:g}; at least two labels "
                "are required"
            )
        return cls(dataset, spread=float(values.astype(np.float64).std()))

    def encode(self, examples):
        return np.array([_number(example) for example in examples], np.float32)

    def values(self, logits):
        return logits

    def average(self, logits):
        return np.mean(logits, axis=0, dtype=np.float64)

    def answers(self, logits):
        return logits[:, 0].tolist()

    def decode(self, logits):
        return [f"{value:.8g}" for value in logits[:, 0]]

    def submitted(self, logits):
        return [
            f"{min(max(float(value), 0.0), 5.0):.6g}" for value in logits[:, 0]
        ]  # STS-B: 0 to 5

    def majority(self, truth):
        mean = float(truth.astype(np.float64).mean())
        return f"always the mean, {mean:.4g}", np.full((len(truth), 1), mean)

    def score(self, truth, logits):
        values = logits[:, 0].astype(np.float64)
        loss = METRICS["mse"].compute(truth, values)
        return {**score(self.dataset.metrics, truth, values), "eval_loss": float(loss)}

    def collapse(self, logits):
        values = logits[:, 0].astype(np.float64)
        if len(values) < 2 or values.std() >= 0.01 * self.spread:
            return None
        return f"every prediction is about {values.mean():.4g}"


class SeveralLabels(Target):
    """Any number of labels: those with a probability of at least 0.5."""

    kind = "multi_label"
    objective = MultiLabelObjective()
    feature = "label_sets"

    @classmethod
    def learn(cls, dataset, examples):
        labels = _in_order({label for example in examples for label in _split(dataset, example)})
        if not labels:
            raise InputError(f"{_file_of(examples)}: no row has a label")
        return cls(dataset, labels)

    def encode(self, examples):
        ids = _ids_of(self.labels)
        sets = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in enumerate(examples):
            for label in _split(self.dataset, example):
                sets[row, _id(ids, example, label)] = 1
        return sets

    def values(self, logits):
        return expit(logits.astype(np.float64))

    def average(self, logits):
        return mean_log_odds(logits)

    def answers(self, logits):
        return [
            [label for label, one in zip(self.labels, row, strict=True) if one]
            for row in logits >= 0
        ]

    def decode(self, logits):
        return [self.dataset.label_separator.join(labels) for labels in self.answers(logits)]

    def majority(self, truth):
        sets, counts = np.unique(truth, axis=0, return_counts=True)
        logits = np.tile(np.where(sets[counts.argmax()] > 0, 1.0, -1.0), (len(truth), 1))
        labels = self.decode(logits[:1])[0]
        return f"always {labels!r}" if labels else "never any label", logits

    def score(self, truth, logits):
        wide = logits.astype(np.float64)
        loss = np.mean(np.logaddexp(0, wide) - truth * wide)
        predicted = (logits >= 0).astype(np.int32)
        scores = score(self.dataset.metrics, truth.astype(np.int32), predicted)
        return {**scores, "eval_loss": float(loss)}


TARGETS: dict[str, type[Target]] = {each.kind: each for each in (OneLabel, Number, SeveralLabels)}


@dataclasses.dataclass(frozen=True)
class SavedTarget:
    """What `target.json` says about the outputs of a trained model."""

    kind: Literal["classification", "regression", "multi_label"] = "classification"
    spread: float = 0.0
    pairs: bool | None = None
    task_name: str | None = None


def restore(
    dataset: ClassificationDataset, saved: SavedTarget | None, labels: Sequence[str]
) -> Target:
    """What the outputs of a trained model mean.

    Labels of the data set that a model of another origin has in another order, or with other
    capitals, are those of the data set, in the order of the model's outputs.

    Args:
        dataset: whose labels they are.
        saved: content of `target.json`; None if there is none, as for a plain classifier.
        labels: content of `labels.json`.
    """
    saved = saved or SavedTarget()
    names = {label.casefold(): label for label in dataset.labels or ()}
    if len(labels) == len(names) and names.keys() == {label.casefold() for label in labels}:
        labels = [names[label.casefold()] for label in labels]
    return TARGETS[saved.kind](dataset, tuple(labels), saved.spread)


def _in_order(labels: set[str]) -> tuple[str, ...]:
    """Sorts numbers by value, anything else as text."""
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _file_of(examples: Sequence[Example]) -> str:
    return examples[0].location.rsplit(":", 1)[0]


def _ids_of(labels: Sequence[str]) -> dict[str, int]:
    """The ids of labels, which may come from elsewhere, by their normalized names."""
    ids = {label: number for number, label in enumerate(labels)}
    return {normalized_label(label): number for label, number in ids.items()} | ids


def _id(ids: dict[str, int], example: Example, label: str) -> int:
    if label not in ids:
        shown = ", ".join(list(ids)[:10]) + (", ..." if len(ids) > 10 else "")
        raise InputError(
            f"{example.location}: label {label!r} is not one of the training labels ({shown})"
        )
    return ids[label]


def _number(example: Example) -> float:
    try:
        value = float(example.label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{example.location}: label {example.label!r} is not a number")
    return value


def _split(dataset: ClassificationDataset, example: Example) -> list[str]:
    """The distinct labels of a row."""
    labels = example.label or []
    if isinstance(labels, str):
        labels = labels.split(dataset.label_separator)
    return list(dict.fromkeys(normalized_label(label) for label in labels if label.strip()))
