"""The steps that engines run: training, evaluation and prediction."""

import abc
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import keras
import numpy as np

from albert_tf.engines.devices import Devices
from albert_tf.errors import InputError
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW

# What training steps record of each step: `finite` is 1 where the update was made, else 0;
# `length` is that of its sequences, padding included.
HISTORY = ("loss", "gradient_norm", "finite", "length")

# Returns sums and weights of an objective over a global batch, and `predictions`; no dropout.
EvaluationStep: TypeAlias = Callable[
    [Any], tuple[dict[str, float], dict[str, float], dict[str, np.ndarray]]
]
# Takes a global batch from an iterator; returns `example_number` `[batch]` and outputs of the model
# by name, `[batch, ...]`, without dropout. Raises StopIteration when there are no more batches.
PredictionStep: TypeAlias = Callable[[Iterator], tuple[np.ndarray, dict[str, np.ndarray]]]

DevicesOfEngine = TypeVar("DevicesOfEngine", bound=Devices)


def accepted_arguments(function: Callable, **arguments: Any) -> dict[str, Any]:
    """Return those of the arguments that `function` has; Keras treats `training` the same way."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How a training step computes an update.

    Attributes:
        micro_batches: parts into which each replica splits its share of a batch.
        clip_norm: global norm to which gradients are clipped; 0 for no clipping.
        seed: seed of the dropout.
        remat: whether layers are computed again in the backward pass, to save memory.
    """

    micro_batches: int = 1
    clip_norm: float = 1.0
    seed: int = 0
    remat: bool = False


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


@dataclasses.dataclass(eq=False)
class TrainingStep(abc.ABC, Generic[DevicesOfEngine]):
    """A model, its optimizer and its objective, trained by one engine.

    The model has an `encoder` with the dropout's `seed_generator`; model and optimizer were created
    in the scope of the devices. The optimizer is built here, on the model's trainable weights. A
    model may have `constants`: variables that it reads and that are neither trained nor saved.
    """

    model: keras.Model
    optimizer: AdamW
    objective: Objective
    devices: DevicesOfEngine
    options: StepOptions = StepOptions()

    def __post_init__(self):
        optimizer = self.optimizer
        with self.devices.scope():
            optimizer.build(self.model.trainable_weights)
        self.moments = [v for v in optimizer.variables if v is not optimizer.iterations]

    @property
    def step(self) -> int:
        """Number of updates made so far, skipped ones included."""
        return int(self.optimizer.iterations.numpy())

    @property
    def tree(self) -> dict[str, Any]:
        """What a checkpoint contains: values by path. Any values of the same shapes replace it."""
        return self._mapped(self._value)

    @tree.setter
    def tree(self, values: dict[str, Any]) -> None:
        for kind, variables in (("params", self.model.weights), ("optimizer", self.moments)):
            for variable in variables:
                self._assign(variable, values[kind][variable.path])
        self._assign(self.optimizer.iterations, values["step"])

    def _mapped(self, function: Callable[[keras.Variable], Any]) -> dict[str, Any]:
        """Return the structure of `tree` with the result of a function for every variable."""
        return {
            "params": {weight.path: function(weight) for weight in self.model.weights},
            "optimizer": {moment.path: function(moment) for moment in self.moments},
            "step": function(self.optimizer.iterations),
        }

    def _value(self, variable: keras.Variable) -> Any:
        return variable.value

    def _assign(self, variable: keras.Variable, value: Any) -> None:
        variable.assign(value)

    @abc.abstractmethod
    def __call__(self, batches: Iterator, count: int) -> StepResults:
        """Take `count` global batches from an iterator, one update each.

        A step whose loss or gradient is not finite leaves weights and moments unchanged. It counts
        as a step all the same: data, dropout and learning rate move on. On return, the model's
        variables have the new weights, so that it can be evaluated and saved.

        Raises:
            InputError: If the data cannot be read.
        """

    def check_replicas(self) -> None:
        """Compare weights and moments of all replicas.

        Each replica applies the same update to the same all-reduced gradients on its own, so
        nothing else would notice one that drifts.

        Raises:
            InputError: If a replica has other values than the first one.
        """
        count, workers = self.devices.num_replicas, self.devices.workers.count
        if count == 1:
            return
        names, checksums = self._checksums()
        different = checksums != checksums[0]
        if not different.any():
            return
        replica = int(np.argmax(different.any(axis=1)))
        changed = [names[int(number)] for number in np.flatnonzero(different[replica])]
        where = f" (worker {replica * workers // count})" if workers > 1 else ""
        raise InputError(
            f"after step {self.step}, replica {replica} of {count}{where} has other values than "
            f"replica 0 in {len(changed)} of {len(names)} variables ({', '.join(changed[:3])}, "
            "...): nothing more is saved; resume from the latest checkpoint, on machines and "
            f"devices of one kind, with one version of {self.devices.framework}"
        )

    @abc.abstractmethod
    def _checksums(self) -> tuple[list[str], np.ndarray]:
        """Return paths of variables, and sums of their bits `[replicas, variables]`."""
