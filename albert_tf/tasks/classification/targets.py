"""What a classifier's outputs mean: one label, a number, or any number of labels."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops
from scipy.special import expit, softmax

from albert_tf.errors import InputError
from albert_tf.finetuning.task import mean_log_odds, mean_log_probabilities
from albert_tf.modeling.losses import (
    NO_LABEL,
    ClassificationObjective,
    MultiLabelObjective,
    RegressionObjective,
)
from albert_tf.tasks.classification.datasets import Example, normalized_label, whole_number
from albert_tf.tasks.classification.target import Target


class OneLabel(Target):
    """One of several labels."""

    kind = "classification"
    objective = ClassificationObjective()
    feature = "label_ids"
    accuracy = keras.metrics.SparseCategoricalAccuracy

    @classmethod
    def learn(cls, dataset, examples):
        labels = dataset.labels or _in_order({n for each in examples for n in each.probabilities})
        if not labels:
            raise InputError(f"{_file_of(examples)}: no row has a label")
        if len(labels) < 2:
            raise _only_one(examples, repr(labels[0]))
        return cls(dataset, labels)

    def encode(self, examples):
        ids = _ids_of(self.labels)
        found = np.full(len(examples), NO_LABEL, np.int32)
        for row, example in enumerate(examples):
            by_label = {label: _id(ids, example, label) for label in example.probabilities}
            if by_label:
                found[row] = by_label[example.likeliest_label]
        return found

    def probabilities(self, examples):
        if not any(isinstance(example.label, dict) for example in examples):
            return None
        ids = _ids_of(self.labels)
        found = np.zeros((len(examples), self.outputs), np.float32)
        for row, example in enumerate(examples):
            for label, probability in example.probabilities.items():
                found[row, _id(ids, example, label)] = probability
        return found

    def values(self, logits):
        return softmax(logits.astype(np.float64), axis=-1)

    @staticmethod
    def graph_outputs(logits):
        return {"probabilities": ops.softmax(logits), "label": ops.argmax(logits, axis=-1)}

    def average(self, logits):
        return mean_log_probabilities(logits)

    def answers(self, logits):
        return [self.labels[label_id] for label_id in self.predicted(logits)]

    def baseline(self, truth):
        label_id = np.bincount(truth).argmax()
        logits = np.tile(np.eye(self.outputs)[label_id], (len(truth), 1))
        return f"always {self.labels[label_id]!r}", logits

    def predicted(self, logits):
        return logits.argmax(axis=-1)

    def losses(self, truth, logits):
        smallest = np.finfo(np.float64).eps  # as of sklearn.metrics.log_loss
        probabilities = self.values(logits)[np.arange(len(truth)), truth]
        return -np.log(probabilities.clip(smallest, 1 - smallest))

    def _labeled_sections(self, report, texts, truth, logits, intervals, lengths):
        values = self.values(logits)
        lengths, unit = lengths
        return report.class_sections(texts, self.labels, truth, values, lengths, intervals, unit)

    def _unlabeled_sections(self, report, logits):
        assigned = np.eye(self.outputs)[self.predicted(logits)]
        return report.label_sections(self.labels, assigned, self.values(logits))


class Number(Target):
    """A number."""

    kind = "regression"
    objective = RegressionObjective()
    feature = "label_values"

    def __init__(self, dataset, labels=(), spread=0.0):
        super().__init__(dataset, (), spread)
        self.outputs = 1

    @classmethod
    def learn(cls, dataset, examples):
        values = cls(dataset).encode(examples)
        if np.ptp(values) == 0:
            raise _only_one(examples, f"{values[0]:g}")
        return cls(dataset, spread=float(values.astype(np.float64).std()))

    def encode(self, examples):
        return np.array([example.number() for example in examples], np.float32)

    def values(self, logits):
        return logits

    @staticmethod
    def graph_outputs(logits):
        return {"value": logits[:, 0]}

    def average(self, logits):
        return np.mean(logits, axis=0, dtype=np.float64)

    def answers(self, logits):
        return logits[:, 0].tolist()

    def decode(self, logits):
        return [f"{value:.8g}" for value in logits[:, 0]]

    def submitted(self, logits):
        # STS-B: 0 to 5.
        return [f"{min(max(float(value), 0.0), 5.0):.6g}" for value in logits[:, 0]]

    def baseline(self, truth):
        mean = float(truth.astype(np.float64).mean())
        return f"always the mean, {mean:.4g}", np.full((len(truth), 1), mean)

    def predicted(self, logits):
        return logits[:, 0].astype(np.float64)

    def losses(self, truth, logits):
        return (self.predicted(logits) - truth) ** 2

    def _labeled_sections(self, report, texts, truth, logits, intervals, lengths):
        return report.number_sections(texts, truth, self.predicted(logits), intervals)

    def _unlabeled_sections(self, report, logits):
        return report.quantile_sections(self.predicted(logits))

    def collapse(self, logits):
        values = self.predicted(logits)
        if values.std() >= 0.01 * self.spread:
            return None
        return f"every prediction is about {values.mean():.4g}"


class SeveralLabels(Target):
    """Any number of labels: those with a probability of at least 0.5."""

    kind = "multi_label"
    objective = MultiLabelObjective()
    feature = "label_sets"
    accuracy = functools.partial(keras.metrics.BinaryAccuracy, threshold=0.0)

    @classmethod
    def learn(cls, dataset, examples):
        labels = _in_order(
            {
                label
                for example in examples
                for label in example.several_labels(dataset.label_separator)
            }
        )
        if not labels:
            raise InputError(f"{_file_of(examples)}: no row has a label")
        return cls(dataset, labels)

    def encode(self, examples):
        ids = _ids_of(self.labels)
        sets = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in enumerate(examples):
            for label in example.several_labels(self.dataset.label_separator):
                sets[row, _id(ids, example, label)] = 1
        return sets

    def values(self, logits):
        return expit(logits.astype(np.float64))

    @staticmethod
    def graph_outputs(logits):
        return {"probabilities": ops.sigmoid(logits), "chosen": logits >= 0}

    def average(self, logits):
        return mean_log_odds(logits)

    def answers(self, logits):
        return [[*itertools.compress(self.labels, row)] for row in self.predicted(logits)]

    def decode(self, logits):
        return [self.dataset.label_separator.join(labels) for labels in self.answers(logits)]

    def baseline(self, truth):
        sets, counts = np.unique(truth, axis=0, return_counts=True)
        logits = np.tile(np.where(sets[counts.argmax()] > 0, 1.0, -1.0), (len(truth), 1))
        labels = self.decode(logits[:1])[0]
        return f"always {labels!r}" if labels else "never any label", logits

    def predicted(self, logits):
        return (logits >= 0).astype(np.int32)

    def losses(self, truth, logits):
        wide = logits.astype(np.float64)
        return np.logaddexp(0, wide) - truth * wide

    def _labeled_sections(self, report, texts, truth, logits, intervals, lengths):
        return report.label_set_sections(texts, self.labels, truth, self.values(logits), intervals)

    def _unlabeled_sections(self, report, logits):
        return report.label_sections(self.labels, self.predicted(logits), self.values(logits))


TARGETS: dict[str, type[Target]] = {each.kind: each for each in (OneLabel, Number, SeveralLabels)}


def _in_order(labels: set[str]) -> tuple[str, ...]:
    numbers = all(label.isdecimal() for label in labels)
    return tuple(sorted(labels, key=lambda label: (int(label) if numbers else 0, label)))


def _file_of(examples: Sequence[Example]) -> str:
    return examples[0].location.rsplit(":", 1)[0]


def _only_one(examples: Sequence[Example], label: str) -> InputError:
    return InputError(
        f"{_file_of(examples)}: every row has the label {label}; at least two labels are required"
    )


def _ids_of(labels: Sequence[str]) -> dict[str, int]:
    """Return the ids of labels, which may come from elsewhere, by their normalized names."""
    ids = {label: number for number, label in enumerate(labels)}
    by_number = {whole_number(label): number for label, number in ids.items()}
    return by_number | {normalized_label(label): number for label, number in ids.items()} | ids


def _id(ids: dict[str, int], example: Example, label: str) -> int:
    if label not in ids:
        shown = ", ".join(list(ids)[:10]) + (", ..." if len(ids) > 10 else "")
        raise InputError(
            f"{example.location}: label {label!r} is not one of the training labels ({shown})"
        )
    return ids[label]
