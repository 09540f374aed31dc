"""Optimizers and learning-rate schedules by name. Keras is loaded only when one is created."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf.errors import InputError

if TYPE_CHECKING:
    from albert_tf.optimization.optimizers import AdamW
    from albert_tf.optimization.schedules import WarmupSchedule


class _Choice(NamedTuple):
    """A row of `OPTIMIZERS` or `SCHEDULES`.

    Attributes:
        class_name: of the optimizer or the schedule, after its module in this package.
        options: argument of its own -> option of the training programs with its value.
    """

    class_name: str
    options: dict[str, str] = {}


OPTIMIZERS = {
    "lamb": _Choice("optimizers.Lamb"),
    "adamw": _Choice("optimizers.AdamW"),
    "muon": _Choice("optimizers.Muon", {"orthogonalize_in": "dtype"}),
}

SCHEDULES = {
    "polynomial": _Choice("schedules.WarmupPolynomialDecay", {"power": "poly_power"}),
    "wsd": _Choice("schedules.WarmupStableDecay", {"cooldown_steps": "cooldown_steps"}),
    "cosine": _Choice("schedules.WarmupCosineDecay"),
}


def create_optimizer(name: str, learning_rate, **kwargs) -> AdamW:
    """Create the optimizer called `name`.

    Args:
        name: a key of `OPTIMIZERS`.
        learning_rate: a number or a schedule of the step.
        **kwargs: other arguments of the optimizer.

    Raises:
        InputError: If there is no optimizer of that name.

    Example:
        >>> schedule = albert_tf.create_schedule("polynomial", 0.00176, num_train_steps=125000)
        >>> optimizer = albert_tf.create_optimizer("lamb", schedule, weight_decay_rate=0.01)
        >>> type(optimizer).__name__
        'Lamb'
    """
    return _class("optimizer", name, OPTIMIZERS)(learning_rate, **kwargs)


def create_schedule(
    name: str, learning_rate: float, num_train_steps: int, **kwargs
) -> WarmupSchedule:
    """Create the schedule called `name`.

    Args:
        name: a key of `SCHEDULES`.
        learning_rate: peak rate.
        num_train_steps: step at which it ends.
        **kwargs: other arguments of the schedule.

    Raises:
        InputError: If there is no schedule of that name.

    Example:
        >>> rate = albert_tf.create_schedule("wsd", 0.1, num_train_steps=100, cooldown_steps=50)
        >>> [round(float(rate(step)), 3) for step in (0, 50, 75, 100)]
        [0.1, 0.1, 0.05, 0.0]
    """
    return _class("schedule", name, SCHEDULES)(learning_rate, num_train_steps, **kwargs)


def _class(argument: str, name: str, choices: dict[str, _Choice]) -> Any:
    if name not in choices:
        raise InputError(f"`{argument}`={name}: must be one of {', '.join(choices)}")
    module, name = choices[name].class_name.split(".")
    return getattr(importlib.import_module(f"albert_tf.optimization.{module}"), name)
