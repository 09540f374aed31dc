"""Scores of predictions, all from scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn import metrics

METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": metrics.accuracy_score,
    "macro_f1": lambda labels, guesses: metrics.f1_score(
        labels, guesses, average="macro", zero_division=0
    ),
}


def score(names: tuple[str, ...], labels: np.ndarray, logits: np.ndarray) -> dict[str, float]:
    """Scores of a classifier.

    Args:
        names: keys of `METRICS`.
        labels: `[examples]` label ids.
        logits: `[examples, labels]`.

    Returns:
        `eval_NAME` for every name, and `eval_loss`, the mean cross-entropy.
    """
    guesses = logits.argmax(axis=-1)
    scores = {f"eval_{name}": float(METRICS[name](labels, guesses)) for name in names}
    loss = metrics.log_loss(labels, softmax(logits), labels=np.arange(logits.shape[-1]))
    return {**scores, "eval_loss": float(loss)}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
