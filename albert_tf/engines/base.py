"""The protocol between the training code and the framework that it runs on.

`albert_tf.training` and `albert_tf.finetuning` know nothing of devices, graphs or file formats of
checkpoints: an `Engine` builds the model where it belongs, runs steps, feeds them, and saves and
finds checkpoints. Engines import neither of these packages.

To add an engine, subclass `Engine` and add a row to `albert_tf.engines.registry.ENGINES`. What
crosses the protocol is Keras objects, NumPy arrays and plain Python. Where the user can do
something about an error of the framework, methods raise `InputError` (a file or an argument is
invalid), `OSError` (the disk is full) or `WorkerLost`.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import keras

from albert_tf.engines.checkpoints import CheckpointFolder, Checkpoints
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.steps import EvaluationStep, PredictionStep, TrainingStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.input.streams import BatchStream
from albert_tf.interop.checkpoint_folders import CHECKPOINT_FORMATS
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW


class Engine(abc.ABC):
    """A framework on some devices.

    Attributes:
        name: its key in `albert_tf.engines.registry.ENGINES`.
        checks_lengths: whether the length that a record declares is checked before it is read. If
            not, the lengths of all records are checked when training starts.
        workers: the processes that train together.
    """

    name: ClassVar[str]
    checks_lengths: ClassVar[bool] = False
    workers: Workers
    _checkpoints: ClassVar[type[Checkpoints]]

    @classmethod
    @abc.abstractmethod
    def create(cls, options: DeviceOptions) -> Engine:
        """The engine on the devices that the options ask for; joins the other workers.

        Raises:
            InputError: options contradict each other or the devices do not exist.
            WorkerLost: another worker does not come.
        """

    # Devices

    @property
    @abc.abstractmethod
    def num_replicas(self) -> int:
        """Devices of all workers that each compute a share of every batch."""

    @property
    @abc.abstractmethod
    def is_tpu(self) -> bool:
        """Whether the devices are TPUs."""

    @property
    def makes_batches_locally(self) -> bool:
        """Whether batches are made in this process, so that Python can order or mask examples."""
        return True

    @abc.abstractmethod
    def describe(self) -> str:
        """One line about devices and workers."""

    @abc.abstractmethod
    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        """Operations per second that all devices together can do; None if unknown.

        Args:
            peak_tflops: TFLOP/s of one replica, where the user gives it; 0 to look it up.
        """

    @abc.abstractmethod
    def preferred_dtype(self) -> tuple[str, str]:
        """The precision in which the devices multiply fastest, as in `dtype`, and why."""

    @abc.abstractmethod
    def device_memory_peak(self) -> int | None:
        """Peak memory use of the fullest local device, in bytes; None if unknown."""

    def per_replica(self, argument: str, batch_size: int) -> int:
        """Examples of a global batch that each replica computes.

        Args:
            argument: name of the batch size, for errors.
            batch_size: examples in a global batch.

        Raises:
            InputError: the batch does not divide by the replicas.
        """
        replicas = self.num_replicas
        if batch_size < 1 or batch_size % replicas:
            raise InputError(
                f"`{argument}`={batch_size}: must be a multiple of the {replicas} replicas, "
                f"such as {max(1, round(batch_size / replicas)) * replicas}"
            )
        return batch_size // replicas

    # Model and steps

    @abc.abstractmethod
    def set_random_seed(self, seed: int) -> None:
        """Seeds everything that draws initial weights.

        Engines other than TensorFlow must not call `keras.utils.set_random_seed`, which imports
        TensorFlow wherever it is installed.
        """

    @abc.abstractmethod
    def scope(self) -> AbstractContextManager:
        """Models and optimizers must be created inside of this block."""

    @abc.abstractmethod
    def create_training_step(
        self,
        model: keras.Model,
        optimizer: AdamW,
        objective: Objective,
        *,
        micro_batches: int = 1,
        clip_norm: float = 1.0,
        seed: int = 0,
        remat: bool = False,
    ) -> TrainingStep:
        """Trains a model.

        Args:
            model: a model of this project, created in `scope`.
            optimizer: created in `scope`; built here, on the model's trainable weights.
            objective: what is minimized.
            micro_batches: parts into which each replica splits its share of a batch.
            clip_norm: global norm to which gradients are clipped; 0 for no clipping.
            seed: seed of the dropout.
            remat: whether layers are computed again in the backward pass, to save memory.
        """

    @abc.abstractmethod
    def create_evaluation_step(self, model: keras.Model, objective: Objective) -> EvaluationStep:
        """Evaluates a model that was created in `scope`."""

    @abc.abstractmethod
    def create_prediction_step(self, model: keras.Model, outputs: Sequence[str]) -> PredictionStep:
        """Runs a model that was created in `scope` and returns the outputs of these names."""

    # Input

    @abc.abstractmethod
    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        """Return the global batches from a step on, spread over the replicas.

        `next` raises InputError where the data cannot be read.
        """

    # Checkpoints

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
        return self._checkpoints(
            self.checkpoints_in(folder), training_step.program, keep, keep_every_n_hours
        )
