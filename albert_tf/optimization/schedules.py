"""Learning rates as functions of the step."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then polynomial decay counted from step 0, as in the original.

    The rate is 0 at step 0. Since the decay counts from step 0, the rate right after the warm-up is
    `learning_rate * (1 - warmup / total) ** power`.

    Args:
        learning_rate: peak rate that the warm-up heads for.
        num_train_steps: step at which the rate reaches 0.
        num_warmup_steps: length of the warm-up.
        power: exponent of the decay, 1 for linear.
        start_warmup_step: step at which the warm-up begins.
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        power: float = 1.0,
        start_warmup_step: int = 0,
        name: str = "warmup_polynomial_decay",
    ):
        super().__init__()
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power
        self.start_warmup_step = start_warmup_step
        self.name = name

    def __call__(self, step):
        """The rate at `step`, the number of updates made before it; float32 scalar."""
        step = ops.cast(step, "float32")
        total = float(self.num_train_steps)
        remaining = 1.0 - ops.minimum(step, total) / total
        decayed = self.learning_rate * ops.power(remaining, self.power)
        if not self.num_warmup_steps:
            return decayed
        since_start = step - float(self.start_warmup_step)
        warming = self.learning_rate * since_start / float(self.num_warmup_steps)
        return ops.where(since_start < float(self.num_warmup_steps), warming, decayed)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
            "start_warmup_step": self.start_warmup_step,
            "name": self.name,
        }
