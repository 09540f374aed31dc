"""The protocol between the training code and the framework that it runs on.

`albert_tf.training` and `albert_tf.finetuning` know nothing of devices, graphs or file formats of
checkpoints. An `Engine` has devices, runs steps on them, feeds them, and saves checkpoints; each of
these parts is a class of its own. Engines import neither of these packages.

To add an engine, subclass `Engine` and its parts, and `CheckpointFolder`, and add rows to
`albert_tf.engines.registry.ENGINES` and `albert_tf.checkpoints.FOLDERS`. What crosses the protocol
is Keras objects, NumPy arrays and plain Python, and the batches that `iterate` returns and steps
take. Where the user can do something about an error of the framework, methods raise `InputError` (a
file or an argument is invalid), `OSError` (the disk is full) or `WorkerLost`.
"""

import abc
import importlib
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from albert_tf.checkpoints import FOLDERS, CheckpointFolder
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.registry import find_engine
from albert_tf.engines.steps import TrainingStep
from albert_tf.engines.workers import shared_settings
from albert_tf.input.streams import BatchStream


class Engine(abc.ABC):
    """A framework on some devices.

    Attributes:
        name: its key in `albert_tf.engines.registry.ENGINES`.
        checks_lengths: whether the length that a record declares is checked before it is read. If
            not, the lengths of all records are checked when training starts.
        evaluation_step: class of `EvaluationStep`s, created from model, objective and devices.
        prediction_step: class of `PredictionStep`s, created from model, names of its outputs and
            devices. Models are created in the scope of the devices.
        workers: the processes that train together.
    """

    name: ClassVar[str]
    checks_lengths: ClassVar[bool] = False
    training_step: ClassVar[type[TrainingStep]]
    evaluation_step: ClassVar[type]
    prediction_step: ClassVar[type]

    def __init__(self, devices: Any):
        self.devices = devices
        self.workers = devices.workers

    @staticmethod
    @abc.abstractmethod
    def create_devices(options: DeviceOptions) -> Any:
        """Return the devices that the options ask for; join the other workers.

        Raises:
            InputError: If options contradict each other or the devices do not exist.
            WorkerLost: If another worker does not come.
        """

    @classmethod
    def create(cls, options: DeviceOptions) -> Self:
        """Return the engine on the devices that the options ask for; errors as `create_devices`."""
        return cls(cls.create_devices(options))

    @abc.abstractmethod
    def set_random_seed(self, seed: int) -> None:
        """Seed everything that draws initial weights.

        Engines other than TensorFlow must not call `keras.utils.set_random_seed`, which imports
        TensorFlow wherever it is installed.
        """

    @abc.abstractmethod
    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        """Return the global batches from a step on, spread over the replicas.

        `next` raises InputError where the data cannot be read.
        """

    def checkpoints_in(self, folder: str) -> CheckpointFolder:
        """Return the checkpoints of this engine in a folder."""
        return FOLDERS[self.name](folder)


def create_engine(name: str, options: DeviceOptions, failure: Exception | None = None) -> Engine:
    """Return the engine called `name`, on the devices that the options ask for.

    Workers need the same options, except for paths and what tells them apart. All of them learn of
    a `failure` of this process, which is raised.

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
