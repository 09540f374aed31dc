"""What a report shows about a classifier, by what its outputs mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from albert_tf.finetuning.metrics import METRICS
from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.intervals import Interval, bootstrap, wilson
from albert_tf.report.sections import Section
from albert_tf.tasks.classification.classification_report import (
    class_sections,
    label_sections,
    label_set_sections,
    number_sections,
    quantile_sections,
)
from albert_tf.tasks.classification.targets import Target


def target_sections(
    target: Target, examples: ExampleSet, truth: np.ndarray | None, logits: np.ndarray, suffix: str
) -> list[Section]:
    """Sections about a set of examples.

    Args:
        target: what the logits mean.
        examples: the set.
        truth: the labels as from `target.encode`; None if they are unknown.
        logits: `[examples, outputs]`.
        suffix: appended to the names of the set's results.
    """
    kind = _KINDS[target.kind]
    predicted = kind.predict(logits)
    if truth is None:
        return kind.unlabeled(target, logits, predicted)
    intervals = intervals_of(target.dataset.metrics, truth.astype(predicted.dtype), predicted)
    intervals["eval_loss"] = bootstrap(np.mean, kind.losses(truth, logits))
    return kind.labeled(
        target, examples, truth, logits, {f"{name}{suffix}": i for name, i in intervals.items()}
    )


def intervals_of(
    names: Sequence[str], truth: np.ndarray, predicted: np.ndarray
) -> dict[str, Interval]:
    """95 % confidence intervals of results: Wilson's for the accuracy, else bootstrap.

    Args:
        names: keys of `METRICS`.
        truth, predicted: `[examples, ...]`.

    Returns:
        Intervals by the keys of the metrics.
    """
    return {
        METRICS[name].key: wilson((truth == predicted).sum(), len(truth))
        if name == "accuracy"
        else bootstrap(METRICS[name].compute, truth, predicted)
        for name in names
    }


class _Kind(NamedTuple):
    """How a kind of target is reported.

    Attributes:
        predict: logits -> what the metrics compare with the truth.
        losses: truth and logits -> the loss of each example.
        labeled: target, examples, truth, logits and intervals -> sections.
        unlabeled: target, logits and predictions -> sections.
    """

    predict: Callable[[np.ndarray], np.ndarray]
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]
    labeled: Callable[..., list[Section]]
    unlabeled: Callable[[Target, np.ndarray, np.ndarray], list[Section]]


def _texts(examples: ExampleSet) -> list[str]:
    return ["\n".join(filter(None, (each.text, each.text_pair))) for each in examples.examples]


def _class_losses(truth: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return -np.log(
        softmax(logits.astype(np.float64), axis=-1)[np.arange(len(truth)), truth].clip(1e-15)
    )


def _label_set_losses(truth: np.ndarray, logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    return (np.logaddexp(0, wide) - truth * wide).mean(axis=-1)


def _values(logits: np.ndarray) -> np.ndarray:
    return logits[:, 0].astype(np.float64)


_KINDS = {
    "classification": _Kind(
        lambda logits: logits.argmax(axis=-1),
        _class_losses,
        lambda target, examples, truth, logits, intervals: class_sections(
            _texts(examples),
            target.labels,
            truth,
            target.values(logits),
            examples.features.example_lengths,
            intervals,
        ),
        lambda target, logits, predicted: label_sections(
            target.labels, np.eye(len(target.labels))[predicted], target.values(logits)
        ),
    ),
    "regression": _Kind(
        _values,
        lambda truth, logits: (_values(logits) - truth) ** 2,
        lambda target, examples, truth, logits, intervals: number_sections(
            _texts(examples), truth, _values(logits), intervals
        ),
        lambda target, logits, predicted: quantile_sections(predicted),
    ),
    "multi_label": _Kind(
        lambda logits: (logits >= 0).astype(np.int32),
        _label_set_losses,
        lambda target, examples, truth, logits, intervals: label_set_sections(
            _texts(examples), target.labels, truth, target.values(logits), intervals
        ),
        lambda target, logits, predicted: label_sections(
            target.labels, predicted, target.values(logits)
        ),
    ),
}
