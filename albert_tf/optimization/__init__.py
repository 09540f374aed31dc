"""Optimizers by name."""

from __future__ import annotations

from albert_tf.errors import InputError
from albert_tf.optimization import schedules as schedules  # registers them with Keras
from albert_tf.optimization.adamw import AdamW
from albert_tf.optimization.lamb import Lamb

OPTIMIZERS = {"lamb": Lamb, "adamw": AdamW}


def create_optimizer(name: str, learning_rate, **kwargs) -> AdamW:
    """The optimizer called `name`.

    Args:
        name: a key of `OPTIMIZERS`.
        learning_rate: a number or a schedule of the step.
        **kwargs: other arguments of the optimizer, such as `learning_rate_scales`, which
            `layer_decay_scales` computes.

    Raises:
        InputError: there is no optimizer of that name.

    Example:

        >>> schedule = albert_tf.create_schedule("polynomial", 0.00176, num_train_steps=125000)
        >>> optimizer = albert_tf.create_optimizer("lamb", schedule, weight_decay_rate=0.01)
        >>> type(optimizer).__name__
        'Lamb'
    """
    if name not in OPTIMIZERS:
        raise InputError(f"`optimizer`={name}: must be one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](learning_rate, **kwargs)
