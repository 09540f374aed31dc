"""What all kinds of targets have in common: labels to numbers, outputs to labels and scores."""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.finetuning.metrics import intervals_of, score
from albert_tf.finetuning.task import ExampleSet
from albert_tf.interop.adjacent_files import labels_text
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.modeling.losses import Objective
from albert_tf.report.intervals import bootstrap_mean
from albert_tf.report.sections import Section
from albert_tf.tasks.classification import KIND
from albert_tf.tasks.classification.datasets import ClassificationDataset, Example


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
    def learn(cls, dataset: ClassificationDataset, examples: Sequence[Example]) -> Target:
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

        None if every label is certain.

        Raises:
            InputError: As of `encode`.
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

    @abc.abstractmethod
    def average(self, logits: Sequence[np.ndarray]) -> np.ndarray:
        """Logits whose `values` are the mean of those of several models."""

    @abc.abstractmethod
    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """Return the predictions that metrics compare with the truth."""

    @abc.abstractmethod
    def losses(self, truth: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """float64 `[examples, ...]`, of which `eval_loss` is the mean."""

    def score(self, truth: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """Return the data set's metrics and `eval_loss`; `truth` as from `encode`."""
        predicted = self.predicted(logits)
        scores = score(self.dataset.metrics, truth.astype(predicted.dtype), predicted)
        return {**scores, "eval_loss": float(np.mean(self.losses(truth, logits)))}

    def report_sections(
        self, examples: ExampleSet, truth: np.ndarray | None, logits: np.ndarray, suffix: str
    ) -> list[Section]:
        """Return what a report shows about a set of examples.

        Args:
            examples: the set.
            truth: as from `encode`; None if the labels are unknown.
            logits: `[examples, outputs]`.
            suffix: appended to the names of the set's results.
        """
        # Loads Matplotlib and scikit-learn.
        from albert_tf.tasks.classification import report

        if truth is None:
            return self._unlabeled_sections(report, logits)
        predicted = self.predicted(logits)
        intervals = intervals_of(self.dataset.metrics, truth.astype(predicted.dtype), predicted)
        features, unit = examples.features, "tokens"
        lengths = features.example_lengths
        if features.texts_split:
            lengths, unit = features.windows_per_text, "windows"
        losses = self.losses(truth, logits).reshape(len(truth), -1).mean(axis=-1)
        intervals["eval_loss"] = bootstrap_mean(losses)
        return self._labeled_sections(
            report,
            ["\n".join(filter(None, (each.text, each.text_pair))) for each in examples.examples],
            truth,
            logits,
            {f"{name}{suffix}": interval for name, interval in intervals.items()},
            (lengths, unit),
        )

    @abc.abstractmethod
    def _labeled_sections(
        self, report, texts, truth, logits, intervals, lengths
    ) -> list[Section]: ...

    @abc.abstractmethod
    def _unlabeled_sections(self, report, logits) -> list[Section]: ...

    @abc.abstractmethod
    def baseline(self, truth: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the baseline's answer, and its logits for every example."""

    def submitted(self, logits: np.ndarray) -> list[str]:
        """Return the label of every example, as the GLUE server expects it."""
        return self.decode(logits)

    def collapse(self, logits: np.ndarray) -> str | None:
        """Describe predictions that are all the same; None if they are not."""
        predicted = self.decode(logits)
        return f"every prediction is {predicted[0]!r}" if len(set(predicted)) == 1 else None

    def adjacent_files(self, **settings: Any) -> dict[str, str]:
        """Return file name -> text of what a trained folder records; `settings` are for exports."""
        name = self.dataset.name
        saved = {"kind": self.kind, "task_name": name, "spread": self.spread, **settings}
        files = {KIND.settings_file: json.dumps(saved) + "\n"}
        if self.labels:
            files[LABELS_FILE] = labels_text(self.labels)
        return files
