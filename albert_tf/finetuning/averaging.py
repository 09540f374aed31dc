"""Averages what several models predict about the same examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp


def mean_of_outputs(outputs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the mean of every output, in float64."""
    return {
        name: np.asarray(np.mean([each[name] for each in outputs], axis=0, dtype=np.float64))
        for name in outputs[0]
    }


def mean_log_probabilities(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Return logits whose softmax is the mean of the models' probabilities.

    Args:
        logits: `[..., classes]` of each model.
    """
    each = [log_softmax(values.astype(np.float64), axis=-1) for values in logits]
    return logsumexp(np.stack(each), axis=0) - np.log(len(each))


def mean_log_odds(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Return logits whose sigmoid is the mean of the models' probabilities.

    Args:
        logits: of each model.
    """
    stacked = np.stack(logits).astype(np.float64)
    return logsumexp(log_expit(stacked), axis=0) - logsumexp(log_expit(-stacked), axis=0)
