"""What a classifier's outputs mean: one label, a number, or any number of labels."""

import abc
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy.special import expit, softmax

from albert_tf.errors import InputError
from albert_tf.finetuning.metrics import intervals_of, score
from albert_tf.finetuning.task import ExampleSet, mean_log_odds, mean_log_probabilities
from albert_tf.modeling.losses import (
    NO_LABEL,
    ClassificationObjective,
    MultiLabelObjective,
    Objective,
    RegressionObjective,
)
from albert_tf.report.intervals import Interval, bootstrap_mean
from albert_tf.report.sections import Section
from albert_tf.tasks.classification import report
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Example,
    normalized_label,
    whole_number,
)


class Target(abc.ABC):
    """Translates labels of a table to numbers for the model, and model outputs to labels.

    Created from the training rows by `learn`, or from what a trained folder records about it.

    Args:
        dataset: whose labels they are.
        labels: the labels in the order of their ids; () for numbers.
        spread: standard deviation of the training labels, if these are numbers.

    Attributes:
        kind: its key in `TARGETS`.
        objective: what training minimises.
        feature: name of the labels among the features.
        outputs: number of outputs of the model.
        accuracy: what `fit` reports besides the loss; None for nothing.
    """

    kind: str
    objective: Objective
    feature: str
    accuracy: Callable[..., keras.metrics.Metric] | None = None

    def __init__(
        self, dataset: ClassificationDataset, labels: tuple[str, ...] = (), spread: float = 0.0
    ):
        self.dataset = dataset
        self.labels = labels
        self.spread = spread
        self.outputs = len(labels)

    @classmethod
    @abc.abstractmethod
    def learn(cls, dataset: ClassificationDataset, examples: Sequence[Example]) -> "Target":
        """Create the target from the training rows.

        Raises:
            InputError: If a label is invalid, or there is only one.
        """

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Return the labels as `features[self.feature]`.

        Raises:
            InputError: If a label is invalid; the message names file and line.
        """

    def probabilities(self, examples: Sequence[Example]) -> np.ndarray | None:
        """Return the probabilities of labels to train on, float32 `[examples, labels]`.

        None if every label is certain. Raises InputError as `encode` does.
        """
        return None

    @abc.abstractmethod
    def values(self, logits: np.ndarray) -> np.ndarray:
        """`[examples, ...]` probabilities, or numbers, as in `test_results.tsv`."""

    @staticmethod
    @abc.abstractmethod
    def graph_outputs(logits: Any) -> dict[str, Any]:
        """Return what an export makes of a tensor `[batch, outputs]`, by name; `label` is an id."""

    @abc.abstractmethod
    def answers(self, logits: np.ndarray) -> list[Any]:
        """Return the label of every example: a text, a number, or a list of texts."""

    def decode(self, logits: np.ndarray) -> list[str]:
        """Return the label of every example, as text."""
        return self.answers(logits)

    def submitted(self, logits: np.ndarray) -> list[str]:
        """Return the label of every example, as the GLUE server expects it."""
        return self.decode(logits)

    @abc.abstractmethod
    def average(self, logits: Sequence[np.ndarray]) -> np.ndarray:
        """Logits whose `values` are the mean of those of several models."""

    @abc.abstractmethod
    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """Return the predictions that metrics compare with the truth."""

    @abc.abstractmethod
    def losses(self, truth: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """float64 `[examples, ...]`, of which `eval_loss` is the mean."""

    @abc.abstractmethod
    def baseline(self, truth: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the baseline's answer, and its logits for every example."""

    def collapse(self, logits: np.ndarray) -> str | None:
        """Describe predictions that are all the same; None if they are not."""
        predicted = self.decode(logits)
        return f"every prediction is {predicted[0]!r}" if len(set(predicted)) == 1 else None

    def score(self, truth: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """Return the data set's metrics and `eval_loss`; `truth` as from `encode`."""
        predicted = self.predicted(logits)
        scores = score(self.dataset.metrics, truth.astype(predicted.dtype), predicted)
        return {**scores, "eval_loss": float(np.mean(self.losses(truth, logits)))}

    @abc.abstractmethod
    def report_sections(
        self, examples: ExampleSet, truth: np.ndarray | None, logits: np.ndarray, suffix: str
    ) -> list[Section]:
        """Return what a report shows about a set of examples.

        Args:
            examples: the set.
            truth: as from `encode`; None if the labels are unknown.
            logits: `[examples, outputs]`.
            suffix: of the names of the set's results.
        """

    def intervals(self, truth: np.ndarray, logits: np.ndarray, suffix: str) -> dict[str, Interval]:
        """Return the confidence intervals of the results of a set."""
        predicted = self.predicted(logits)
        intervals = intervals_of(self.dataset.metrics, truth.astype(predicted.dtype), predicted)
        losses = self.losses(truth, logits).reshape(len(truth), -1).mean(axis=-1)
        intervals["eval_loss"] = bootstrap_mean(losses)
        return {f"{name}{suffix}": interval for name, interval in intervals.items()}


class OneLabel(Target):
    """One of several labels."""

    kind = "classification"
    objective = ClassificationObjective()
    feature = "label_ids"
    accuracy = keras.metrics.SparseCategoricalAccuracy

    @classmethod
    def learn(cls, dataset, examples):
        found = (each.probabilities for each in examples)
        labels = dataset.labels or _in_order(examples, found)
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

    def report_sections(self, examples, truth, logits, suffix):
        values = self.values(logits)
        if truth is None:
            assigned = np.eye(self.outputs)[self.predicted(logits)]
            return report.label_sections(self.labels, assigned, values)
        features, unit = examples.features, "tokens"
        lengths = features.example_lengths
        if features.texts_split:
            lengths, unit = features.windows_per_text, "windows"
        intervals, texts = self.intervals(truth, logits, suffix), _texts(examples)
        return report.class_sections(texts, self.labels, truth, values, lengths, intervals, unit)


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

    def report_sections(self, examples, truth, logits, suffix):
        values = self.predicted(logits)
        if truth is None:
            return report.quantile_sections(values)
        intervals = self.intervals(truth, logits, suffix)
        return report.number_sections(_texts(examples), truth, values, intervals)

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
        found = (each.several_labels(dataset.label_separator) for each in examples)
        return cls(dataset, _in_order(examples, found))

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

    def report_sections(self, examples, truth, logits, suffix):
        values = self.values(logits)
        if truth is None:
            return report.label_sections(self.labels, self.predicted(logits), values)
        intervals = self.intervals(truth, logits, suffix)
        return report.label_set_sections(_texts(examples), self.labels, truth, values, intervals)


TARGETS: dict[str, type[Target]] = {each.kind: each for each in (OneLabel, Number, SeveralLabels)}


def _texts(examples: ExampleSet) -> list[str]:
    return ["\n".join(filter(None, (each.text, each.text_pair))) for each in examples.examples]


def _in_order(examples: Sequence[Example], found: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the labels that are found in examples, sorted, as numbers if all are."""
    labels = {label for each in found for label in each}
    if not labels:
        raise InputError(f"{examples[0].location.rsplit(':', 1)[0]}: no row has a label")
    numbers = all(label.isdecimal() for label in labels)
    return tuple(sorted(labels, key=lambda label: (int(label) if numbers else 0, label)))


def _only_one(examples: Sequence[Example], label: str) -> InputError:
    file = examples[0].location.rsplit(":", 1)[0]
    return InputError(f"{file}: every row has the label {label}; at least two labels are required")


@functools.lru_cache(maxsize=8)
def _ids_of(labels: tuple[str, ...]) -> dict[str, int]:
    """Return the ids of labels, which may come from elsewhere, by their normalized names."""
    ids = {label: number for number, label in enumerate(labels)}
    by_number = {whole_number(n.removeprefix("LABEL_")): number for n, number in ids.items()}
    return by_number | {normalized_label(label): number for label, number in ids.items()} | ids


def _id(ids: dict[str, int], example: Example, label: str) -> int:
    if label not in ids:
        shown = ", ".join(list(ids)[:10]) + (", ..." if len(ids) > 10 else "")
        raise InputError(
            f"{example.location}: label {label!r} is not one of the training labels ({shown})"
        )
    return ids[label]
