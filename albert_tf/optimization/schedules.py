"""Learning rates as functions of the step.

To add a schedule, subclass `WarmupSchedule` and add a row to `albert_tf.optimization.SCHEDULES`.

Steps are integers, and the rest of a decay is a difference of integers: so float32 is exact to its
last bit at any step, whereas `1 - step / total` loses digits towards the end.
"""

import abc
import math

import keras
from keras import ops


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """Linear warm-up from 0 to the peak; subclasses define the decay that follows.

    Args:
        learning_rate: peak rate.
        num_train_steps: step at which the decay ends.
        num_warmup_steps: length of the warm-up.
        start_warmup_step: step at which the warm-up begins.
        final_learning_rate_ratio: the rate from `num_train_steps` on, as a fraction of the peak.
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        start_warmup_step: int = 0,
        final_learning_rate_ratio: float = 0.0,
        name: str | None = None,
    ):
        super().__init__()
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.start_warmup_step = start_warmup_step
        self.final_learning_rate_ratio = final_learning_rate_ratio
        self.name = name or type(self).__name__

    def __call__(self, step):
        """Return the rate at `step`, which is the number of updates made so far; float32 scalar."""
        step = ops.cast(step, "int32")
        final = self.final_learning_rate_ratio
        after_warmup = self.learning_rate * (final + (1.0 - final) * self._decay(step))
        if not self.num_warmup_steps:
            return after_warmup
        since_start = self._since_start(step)
        warming = self.learning_rate * self._part(since_start, self.num_warmup_steps)
        return ops.where(since_start < self.num_warmup_steps, warming, after_warmup)

    def _since_start(self, step):
        return ops.maximum(step - self.start_warmup_step, 0)

    @abc.abstractmethod
    def _decay(self, step):
        """Decrease from 1 to 0, float32; `step` is int32."""

    def _remaining(self, step, length: int):
        """1 until `length` steps before the end, then linearly down to 0."""
        return self._part(ops.clip(self.num_train_steps - step, 0, length), length)

    @staticmethod
    def _part(steps, of: int):
        return ops.cast(steps, "float32") / float(of)

    def get_config(self):
        return dict(vars(self))  # the arguments


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(WarmupSchedule):
    """Linear warm-up, then polynomial decay counted from step 0, as in the original.

    The rate is 0 at step 0. Since the decay counts from step 0, the rate right after the warm-up is
    `learning_rate * (1 - warmup / total) ** power`. Before `start_warmup_step`, the original's
    formula, and so this one, is negative.

    Args:
        power: exponent of the decay, 1 for linear.
        **kwargs: arguments of `WarmupSchedule`.

    Example:
        >>> rate = albert_tf.WarmupPolynomialDecay(0.1, num_train_steps=100, num_warmup_steps=10)
        >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 50, 100)]
        [0.0, 0.05, 0.09, 0.05, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        power: float = 1.0,
        **kwargs,
    ):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps, **kwargs)
        self.power = power

    def _since_start(self, step):
        return step - self.start_warmup_step

    def _decay(self, step):
        remaining = self._remaining(step, self.num_train_steps)
        return remaining if self.power == 1.0 else ops.power(remaining, self.power)


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupStableDecay(WarmupSchedule):
    """Linear warm-up, the peak, linear cool-down over the last steps (WSD; arXiv 2404.06395).

    Before the cool-down the rate does not depend on `num_train_steps`, so runs of any length can
    branch off from a checkpoint of that phase.

    Args:
        cooldown_steps: length of the cool-down; 0 keeps the rate at the peak.
        **kwargs: arguments of `WarmupSchedule`.

    Example:
        >>> rate = albert_tf.WarmupStableDecay(0.1, 100, num_warmup_steps=10, cooldown_steps=20)
        >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 80, 90, 100)]
        [0.0, 0.05, 0.1, 0.1, 0.05, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        cooldown_steps: int = 0,
        **kwargs,
    ):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps, **kwargs)
        self.cooldown_steps = cooldown_steps

    def _decay(self, step):
        if not self.cooldown_steps:
            return ops.ones((), "float32")
        return self._remaining(step, self.cooldown_steps)


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupCosineDecay(WarmupSchedule):
    """Linear warm-up, then half a period of a cosine from the peak to the end (arXiv 1608.03983).

    Arguments are those of `WarmupSchedule`.

    Example:
        >>> rate = albert_tf.WarmupCosineDecay(0.1, num_train_steps=100, num_warmup_steps=20)
        >>> [round(float(rate(step)), 3) for step in (0, 10, 20, 60, 100)]
        [0.0, 0.05, 0.1, 0.05, 0.0]
    """

    def _decay(self, step):
        warm = self.start_warmup_step + self.num_warmup_steps
        remaining = self._remaining(step, max(self.num_train_steps - warm, 1))
        # (1 + cos(pi (1 - r))) / 2, without the cancellation near 0.
        return ops.square(ops.sin(0.5 * math.pi * remaining))
