"""The protocol between the training code and the framework that it runs on.

`albert_tf.training` and `albert_tf.finetuning` know nothing of devices, graphs or file formats of
checkpoints. An `Engine` has devices, runs steps on them, feeds them, and saves checkpoints; each of
these parts is a class of its own. Engines import neither of these packages.

To add an engine, subclass `Engine` and its parts, and add a row to
`albert_tf.engines.registry.ENGINES`. What crosses the protocol is Keras objects, NumPy arrays and
plain Python, and the batches that `iterate` returns and steps take. Where the user can do something
about an error of the framework, methods raise `InputError` (a file or an argument is invalid),
`OSError` (the disk is full) or `WorkerLost`.
"""

from __future__ import annotations

import abc
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

import keras

from albert_tf.checkpoints.folder import CHECKPOINT_FORMATS
from albert_tf.checkpoints.saving import CheckpointFolder, Checkpoints
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.devices import Devices
from albert_tf.engines.registry import find_engine
from albert_tf.engines.steps import EvaluationStep, PredictionStep, StepOptions, TrainingStep
from albert_tf.engines.workers import shared_settings
from albert_tf.input.streams import BatchStream
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW


class EngineParts(NamedTuple):
    """The parts of an engine; steps take a model, what they compute of it, and the devices.

    Attributes:
        create_devices: returns the devices that options ask for, and joins the other workers.
        training_step, evaluation_step, prediction_step: see `albert_tf.engines.steps`.
        checkpoints: saves and restores a training step.
    """

    create_devices: Callable[[DeviceOptions], Devices]
    training_step: type[TrainingStep]
    evaluation_step: Callable[[keras.Model, Objective, Any], EvaluationStep]
    prediction_step: Callable[[keras.Model, Sequence[str], Any], PredictionStep]
    checkpoints: type[Checkpoints]


class Engine(abc.ABC):
    """A framework on some devices.

    Args:
        devices: of the engine.

    Attributes:
        name: its key in `albert_tf.engines.registry.ENGINES`.
        checks_lengths: whether the length that a record declares is checked before it is read. If
            not, the lengths of all records are checked when training starts.
        parts: classes of its parts.
        workers: the processes that train together.
    """

    name: ClassVar[str]
    checks_lengths: ClassVar[bool] = False
    parts: ClassVar[EngineParts]

    def __init__(self, devices: Any):
        self.devices = devices
        self.workers = devices.workers

    @classmethod
    def create(cls, options: DeviceOptions) -> Engine:
        """Return the engine on the devices that the options ask for; join the other workers.

        Raises:
            InputError: If options contradict each other or the devices do not exist.
            WorkerLost: If another worker does not come.
        """
        return cls(cls.parts.create_devices(options))

    @abc.abstractmethod
    def set_random_seed(self, seed: int) -> None:
        """Seed everything that draws initial weights.

        Engines other than TensorFlow must not call `keras.utils.set_random_seed`, which imports
        TensorFlow wherever it is installed.
        """

    def scope(self) -> AbstractContextManager:
        """Return a block in which models and optimizers must be created."""
        return self.devices.scope()

    def create_training_step(
        self, model: keras.Model, optimizer: AdamW, objective: Objective, **options: Any
    ) -> TrainingStep:
        """Return what trains a model.

        Args:
            model: a model of this project, created in `scope`.
            optimizer: created in `scope`; built here, on the model's trainable weights.
            objective: what is minimized.
            **options: fields of `StepOptions`.
        """
        step_options = StepOptions(**options)
        return self.parts.training_step(model, optimizer, objective, self.devices, step_options)

    def create_evaluation_step(self, model: keras.Model, objective: Objective) -> EvaluationStep:
        """Return what evaluates a model that was created in `scope`."""
        return self.parts.evaluation_step(model, objective, self.devices)

    def create_prediction_step(self, model: keras.Model, outputs: Sequence[str]) -> PredictionStep:
        """Return what runs a model that was created in `scope` and returns some of its outputs."""
        return self.parts.prediction_step(model, tuple(outputs), self.devices)

    @abc.abstractmethod
    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        """Return the global batches from a step on, spread over the replicas.

        `next` raises InputError where the data cannot be read.
        """

    def checkpoints_in(self, folder: str) -> CheckpointFolder:
        """Return the checkpoints of this engine in a folder."""
        return CheckpointFolder(folder, CHECKPOINT_FORMATS[self.name], self.workers)

    def create_checkpoints(
        self,
        folder: str,
        training_step: TrainingStep,
        *,
        keep: int = 5,
        keep_every_n_hours: float = 0,
    ) -> Checkpoints:
        """Return what saves and restores a training step in a folder.

        Args:
            folder: of the checkpoints, `model.ckpt-STEP`.
            training_step: made by `create_training_step`.
            keep: number of latest checkpoints to keep.
            keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.
        """
        return self.parts.checkpoints(
            self.checkpoints_in(folder), training_step, keep, keep_every_n_hours
        )


def create_engine(name: str, options: DeviceOptions, failure: Exception | None = None) -> Engine:
    """Return the engine called `name`, on the devices that the options ask for.

    Args:
        name: a key of `ENGINES`.
        options: the same for all workers, except for paths and what tells them apart.
        failure: an error of which all workers, if there are others, are to know; raised.

    Raises:
        InputError: If there is no such engine, the options contradict each other or those of other
            workers, the devices do not exist, or another worker has failed.
    """
    entry = find_engine(name)
    engine = getattr(importlib.import_module(entry.module), entry.name).create(options)
    version = {engine.devices.framework: importlib.import_module(name).__version__}
    with engine.workers.losses_reported():
        if failure:
            raise failure
        engine.workers.check_same(shared_settings(options) | version)
    return engine
