"""The steps that engines run: training, evaluation and prediction."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

# What training steps record of each step: `finite` is 1 where the update was made, else 0;
# `length` is that of its sequences, padding included.
HISTORY = ("loss", "gradient_norm", "finite", "length")


def accepted_arguments(function: Callable, **arguments: Any) -> dict[str, Any]:
    """Those of the arguments that `function` has; Keras treats `training` the same way."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


class StepResults(NamedTuple):
    """Results of one call of a `TrainingStep`.

    Attributes:
        sums: sum of each quantity of the objective over the finite steps.
        weights: weight of each part of the objective over the finite steps.
        scalars: `learning_rate` and `gradient_norm` (before clipping) of the last step, the
            optimizer's `measures` of the last finite step, `parameter_norm` after all steps, and
            `input_wait_seconds`, how long the steps waited for data.
        history: float32 `[steps]` of every step, by the names in `HISTORY`.
    """

    sums: dict[str, float]
    weights: dict[str, float]
    scalars: dict[str, float]
    history: dict[str, np.ndarray]


class TrainingStep(abc.ABC):
    """A model, its optimizer and its objective, trained by one engine."""

    program: Any

    @property
    @abc.abstractmethod
    def step(self) -> int:
        """Number of updates made so far, skipped ones included."""

    @abc.abstractmethod
    def __call__(self, batches: Iterator, count: int) -> StepResults:
        """Takes `count` global batches from an iterator, one update each.

        A step whose loss or gradient is not finite leaves weights and moments unchanged. It counts
        as a step all the same: data, dropout and learning rate move on. On return, the model's
        variables have the new weights, so that it can be evaluated and saved.

        Raises:
            InputError: the data cannot be read.
        """

    @abc.abstractmethod
    def check_replicas(self) -> None:
        """Compares weights and moments of all replicas.

        Raises:
            InputError: a replica has other values than the first one.
        """


class EvaluationStep(abc.ABC):
    """A model and its objective, evaluated without dropout."""

    @abc.abstractmethod
    def __call__(self, batch: Any) -> tuple[dict[str, float], dict[str, float]]:
        """Sums and weights of the objective over one global batch."""


class PredictionStep(abc.ABC):
    """A model, run without dropout.

    Attributes:
        outputs: names of the model's outputs that it returns.
    """

    outputs: tuple[str, ...]

    @abc.abstractmethod
    def __call__(self, batches: Iterator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Takes one global batch from an iterator.

        Returns:
            `example_number` `[batch]` and the outputs by name, `[batch, ...]`.

        Raises:
            StopIteration: there are no more batches.
        """
