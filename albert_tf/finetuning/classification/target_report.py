"""What a report says of a classifier, by what its outputs stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.finetuning.classification.classification_report import (
    class_sections,
    guess_sections,
    label_set_sections,
    range_sections,
    value_sections,
)
from albert_tf.finetuning.classification.targets import Target
from albert_tf.finetuning.metrics import METRICS, sigmoid, softmax
from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.intervals import Interval, bootstrap, wilson
from albert_tf.report.sections import Section


def report_sections(
    target: Target, examples: ExampleSet, truth: np.ndarray | None, logits: np.ndarray, suffix: str
) -> list[Section]:
    """What there is to say of a set of examples.

    Args:
        target: what the logits stand for.
        examples: the set.
        truth: the labels as `target.encode` gives them; None where they are not known.
        logits: `[examples, outputs]`.
        suffix: what the names of the set's results end in.
    """
    kind = _KINDS[target.kind]
    guesses = kind.guess(logits)
    if truth is None:
        return kind.unlabelled(target, logits, guesses)
    intervals = intervals_of(target.task.metrics, truth.astype(guesses.dtype), guesses)
    intervals["eval_loss"] = bootstrap(np.mean, kind.losses(truth, logits))
    return kind.labelled(
        target, examples, truth, logits, {f"{name}{suffix}": i for name, i in intervals.items()}
    )


def intervals_of(
    names: Sequence[str], truth: np.ndarray, guesses: np.ndarray
) -> dict[str, Interval]:
    """95 % intervals of some results, by their keys: Wilson's of an accuracy, else bootstrap.

    Args:
        names: keys of `METRICS`.
        truth, guesses: `[examples, ...]`.
    """
    return {
        METRICS[name].key: wilson((truth == guesses).sum(), len(truth))
        if name == "accuracy"
        else bootstrap(METRICS[name].of, truth, guesses)
        for name in names
    }


class _Kind(NamedTuple):
    """How a kind of target is reported.

    Attributes:
        guess: logits -> what the task's metrics compare with the truth.
        losses: truth and logits -> the loss of each example.
        labelled: target, examples, truth, logits and intervals -> sections.
        unlabelled: target, logits and guesses -> sections.
    """

    guess: Callable[[np.ndarray], np.ndarray]
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]
    labelled: Callable[..., list[Section]]
    unlabelled: Callable[[Target, np.ndarray, np.ndarray], list[Section]]


def _texts(examples: ExampleSet) -> list[str]:
    return ["\n".join(filter(None, (each.text, each.text_pair))) for each in examples.examples]


def _class_losses(truth: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return -np.log(softmax(logits)[np.arange(len(truth)), truth].clip(1e-15))


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
            softmax(logits),
            examples.features.example_lengths,
            intervals,
        ),
        lambda target, logits, guesses: guess_sections(
            target.labels, np.eye(len(target.labels))[guesses], softmax(logits)
        ),
    ),
    "regression": _Kind(
        _values,
        lambda truth, logits: (_values(logits) - truth) ** 2,
        lambda target, examples, truth, logits, intervals: value_sections(
            _texts(examples), truth, _values(logits), intervals
        ),
        lambda target, logits, guesses: range_sections(guesses),
    ),
    "multi_label": _Kind(
        lambda logits: (logits >= 0).astype(np.int32),
        _label_set_losses,
        lambda target, examples, truth, logits, intervals: label_set_sections(
            _texts(examples), target.labels, truth, sigmoid(logits), intervals
        ),
        lambda target, logits, guesses: guess_sections(target.labels, guesses, sigmoid(logits)),
    ),
}
