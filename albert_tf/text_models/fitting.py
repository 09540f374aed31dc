"""The arguments of `fit` in terms of the options of the commands, and the batches of these."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.input.examples import Features, MemoryStream
from albert_tf.optimization import OPTIMIZERS, create_optimizer, create_schedule
from albert_tf.options import check_limits, option
from albert_tf.text_models.inputs import check_number, check_whole_number

# The default of --random_seed.
SEED = 12345

_DEFAULT_EPOCHS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitArguments:
    """How `fit` trains; what is not given is as in the command.

    Attributes:
        epochs: passes over the examples; 3 without `steps`.
        steps: training steps, instead of `epochs`.
        batch_size: examples per step, by default 32; at most as many as there are.
        learning_rate: peak of the learning rate.
        warmup_proportion: share of the steps in which the learning rate rises from 0.
        optimizer: "adamw" (the default), "lamb" or "muon", with the schedule, weight decay and
            clipping of the command; or an optimizer of Keras, which is used as it is.
        callbacks: of Keras.
        seed: of the order of the examples and of the dropout.
        verbose: as of `keras.Model.fit`.
    """

    epochs: float | None = option(None, above=0, maximum=1_000_000)
    steps: int | None = option(None, minimum=1)
    batch_size: int | None = option(None, minimum=1)
    learning_rate: float | None = option(None, above=0)
    warmup_proportion: float | None = option(None, minimum=0, maximum=1)
    optimizer: Any = option("adamw")
    callbacks: Sequence[keras.callbacks.Callback] = option(())
    seed: int = option(SEED, minimum=0)
    verbose: Any = option("auto")

    @classmethod
    def checked(cls, arguments: Mapping[str, Any]) -> "FitArguments":
        """Return the arguments by name.

        Raises:
            InputError: If one of them is unknown or invalid.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name, value in arguments.items():
            if name not in names:
                raise InputError(f"`{name}`: is no argument of `fit`; these are {', '.join(names)}")
            if name in ("steps", "batch_size", "seed") and value is not None:
                check_whole_number(name, value)
            if name in ("epochs", "learning_rate", "warmup_proportion") and value is not None:
                check_number(name, value)
        checked = cls(**arguments)
        if checked.epochs is not None and checked.steps is not None:
            raise InputError(f"`steps`={checked.steps} and `epochs`={checked.epochs}: give one")
        check_limits(checked)
        if isinstance(checked.optimizer, str) and checked.optimizer not in OPTIMIZERS:
            raise InputError(
                f"`optimizer`={checked.optimizer}: must be one of {', '.join(OPTIMIZERS)}, or an "
                "optimizer of Keras"
            )
        for name in ("learning_rate", "warmup_proportion"):
            value = getattr(checked, name)
            if value is not None and not isinstance(checked.optimizer, str):
                raise InputError(f"`{name}`={value}: belongs to `optimizer`, which is given")
        return checked

    @property
    def passes(self) -> float | None:
        """Passes over the examples; None if the number of steps is given."""
        return None if self.steps else self.epochs or _DEFAULT_EPOCHS

    def options(self, options: FineTuningOptions, examples: int) -> FineTuningOptions:
        """Return the options of a command that trains so on a number of examples.

        Raises:
            InputError: If an argument is out of range.
        """
        size = min(self.batch_size or options.train_batch_size, examples)
        steps = self.steps or max(1, int(examples / size * (self.passes or 0.0)))
        changes: dict[str, Any] = {"train_batch_size": size, "train_step": steps}
        if self.learning_rate is not None:
            changes["learning_rate"] = self.learning_rate
        if isinstance(self.optimizer, str):
            changes["optimizer"] = self.optimizer
        if self.warmup_proportion is not None:
            warmup = int(steps * self.warmup_proportion)
            changes |= {"warmup_step": warmup, "warmup_proportion": 0.0}
        options = dataclasses.replace(options, do_train=True, random_seed=self.seed, **changes)
        with arguments_renamed(
            train_batch_size="batch_size", train_step="steps", random_seed="seed"
        ):
            options.check()
        return options.resolved(examples)

    def create_optimizer(
        self, options: FineTuningOptions, config: AlbertConfig
    ) -> keras.optimizers.Optimizer:
        """Return the optimizer, by default that of a command with these options."""
        if not isinstance(self.optimizer, str):
            return self.optimizer
        return create_optimizer(
            options.optimizer,
            create_schedule(options.schedule, **options.schedule_arguments()),
            **options.optimizer_arguments(config),
            global_clipnorm=options.clip_norm or None,
        )


def epochs_of(total_steps: int, steps_per_pass: int, epochs: float | None) -> tuple[int, int]:
    """Divide the steps of a run, of a number of epochs or of steps, into epochs of Keras.

    Return their number, and the steps of every one but the last, which may be shorter.
    """
    if epochs is None:
        steps = min(total_steps, steps_per_pass)
    else:
        steps = math.ceil(total_steps / min(math.ceil(epochs), total_steps))
    return math.ceil(total_steps / steps), steps


class StopAfter(keras.callbacks.Callback):
    """Ends training after a number of steps, within the last epoch."""

    def __init__(self, steps: int):
        super().__init__()
        self._left = steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step."""
        self._left -= 1
        if not self._left:
            self.model.stop_training = True


# What evaluation batches contain besides the examples.
_BOOKKEEPING = ("example_number", "is_real_example")


def training_batches(features: Features, length: int, size: int, seed: int) -> Any:
    """Return endless shuffled batches of features, padded to at most `length`, for Keras' `fit`."""
    stream = MemoryStream(features, length, size, seed)
    if _is_on_tensorflow():
        # Of a generator of NumPy batches, Keras fixes the length of all to that of the first ones.
        from albert_tf.engines.tensorflow.batches import dataset

        return dataset(stream)
    batches = stream.batches()
    return ((batches[step],) for step in range(len(batches)))


def evaluation_batches(features: Features, length: int, size: int) -> Any:
    """Return the batches of all examples once, without what pads the last one."""
    stream = MemoryStream(features, length, size)
    if not _is_on_tensorflow():
        return _EvaluationSequence(stream)
    import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import dataset

    def real(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        chosen = batch["is_real_example"] > 0
        return {
            name: tf.boolean_mask(value, chosen)
            for name, value in batch.items()
            if name not in _BOOKKEEPING
        }

    return dataset(stream).map(real)


def _is_on_tensorflow() -> bool:
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise InputError(f"KERAS_BACKEND={backend}: must be one of tensorflow, jax")
    return backend == "tensorflow"


class _EvaluationSequence(keras.utils.PyDataset):
    def __init__(self, stream: MemoryStream):
        super().__init__()
        self._batches = stream.batches()

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        batch = self._batches[index]
        chosen = batch["is_real_example"] > 0
        return ({name: value[chosen] for name, value in batch.items() if name not in _BOOKKEEPING},)
