"""Optimizers by name."""

from __future__ import annotations

from albert_tf.errors import InputError
from albert_tf.optimization.adamw import AdamW
from albert_tf.optimization.lamb import Lamb

OPTIMIZERS = {"lamb": Lamb, "adamw": AdamW}


def create_optimizer(name: str, learning_rate, **kwargs) -> AdamW:
    """The optimizer called `name`.

    Args:
        name: a key of `OPTIMIZERS`.
        learning_rate: a number or a schedule of the step.
        **kwargs: other arguments of the optimizer.

    Raises:
        InputError: there is no optimizer of that name.
    """
    if name not in OPTIMIZERS:
        raise InputError(f"`optimizer`={name}: must be one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](learning_rate, **kwargs)
