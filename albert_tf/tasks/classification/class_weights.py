"""Weights of labels in the training loss, for labels of which some are rare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import read_json

BALANCED = "balanced"


def class_weights(
    given: str | Mapping[str, float], labels: Sequence[str], ids: np.ndarray
) -> np.ndarray:
    """Return the weight of every label.

    A balanced weight is examples / (labels * examples with the label), as in scikit-learn.

    Args:
        given: `BALANCED`; a JSON file, or a mapping, from labels to weights.
        labels: all labels.
        ids: int `[examples]`, of the labels of the training examples; negative without one.

    Returns:
        float32 `[labels]`.

    Raises:
        InputError: If the weights are invalid, or those of labels that do not exist.
    """
    if given == BALANCED:
        ids = ids[ids >= 0]
        counts = np.bincount(ids, minlength=len(labels))
        return (len(ids) / (len(labels) * np.maximum(counts, 1))).astype(np.float32)
    source = f"`class_weights`={given}" if isinstance(given, str) else "`class_weights`"
    weights = read_json(given, dict[str, float]) if isinstance(given, str) else given
    if unknown := sorted(set(weights).difference(labels)):
        raise InputError(
            f"{source}: {unknown[0]!r} is not one of the training labels ({', '.join(labels)})"
        )
    for label, weight in weights.items():
        if not 0 < weight < math.inf:
            raise InputError(f"{source}: the weight of {label!r} is {weight}; must be above 0")
    return np.array([weights.get(label, 1) for label in labels], np.float32)
