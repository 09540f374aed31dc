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
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import keras

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.steps import EvaluationStep, PredictionStep, TrainingStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.input.streams import BatchStream
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.adamw import AdamW


class Checkpoints(AbstractContextManager):
    """Saves and restores the state of a `TrainingStep` in one folder.

    Saving happens in the background. A run that is killed at any moment leaves the previous
    checkpoint as the latest one. Leaving the `with` block waits for the last save; an error that
    ended the block hides an error of the save.

    Attributes:
        latest: path of the checkpoint that was restored last, or last known to be complete.
        before_listing: called in the background before a checkpoint is listed as the latest, to
            wait for the log of the steps before it.
    """

    before_listing: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self) -> None:
        self.latest: str | None = None
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[str] | None = None

    @abc.abstractmethod
    def restore_latest(self) -> bool:
        """Restores the latest valid checkpoint; returns False if the folder has none.

        Raises:
            InputError: all checkpoints are damaged, or the latest belongs to another model or
                optimizer.
        """

    @abc.abstractmethod
    def remove_unfinished(self) -> None:
        """Removes partial checkpoints of runs that were killed while they saved."""

    @abc.abstractmethod
    def save(self) -> None:
        """Starts saving the current state, after waiting for the previous save.

        Raises:
            OSError: the previous checkpoint could not be written.
        """

    def _finish_in_background(self, finish: Callable[..., str], *arguments: Any) -> None:
        """Calls a function that returns the path of a complete checkpoint, or raises OSError."""

        def finish_after_log() -> str:
            self.before_listing()
            return finish(*arguments)

        self._pending = self._writer.submit(finish_after_log)

    def wait(self) -> None:
        """Waits until everything is saved.

        Raises:
            OSError: the checkpoint could not be written; nothing of it is left behind.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            self.latest = pending.result()

    def check(self) -> None:
        """Raises the OSError of a save that has failed; does not wait."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def __exit__(self, kind, error, traceback) -> None:
        with contextlib.suppress(*(() if error is None else (OSError,))):
            self.wait()


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

    @abc.abstractmethod
    def create_checkpoints(
        self,
        folder: str,
        training_step: TrainingStep,
        *,
        keep: int = 5,
        keep_every_n_hours: float = 0,
    ) -> Checkpoints:
        """Saves and restores a training step in a folder.

        Args:
            folder: of the checkpoints, `model.ckpt-STEP`.
            training_step: made by `create_training_step`.
            keep: number of latest checkpoints to keep.
            keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.
        """

    @abc.abstractmethod
    def find_checkpoint(self, path: str, argument: str = "path") -> str:
        """The checkpoint that a path names: itself, or the latest one listed in a folder.

        Args:
            path: of a checkpoint or a folder.
            argument: the caller's name of `path`, for errors.

        Raises:
            InputError: there is none, or several of which none is listed as the latest.
        """

    @abc.abstractmethod
    def list_checkpoints(self, folder: str) -> list[str]:
        """The checkpoints in a folder, damaged ones included; reads none."""

    @abc.abstractmethod
    def latest_checkpoint(self, folder: str) -> str | None:
        """The latest valid checkpoint in a folder as the chief finds it; None if there is none.

        Damaged ones that are newer are skipped with a warning.

        Raises:
            InputError: all are damaged, or the folder is not the same for all workers.
        """

    @abc.abstractmethod
    def valid_checkpoints(self, folder: str) -> list[str]:
        """The valid checkpoints in a folder as the chief finds them, oldest first.

        Raises:
            InputError: there are some, all damaged.
        """

    @abc.abstractmethod
    def checkpoint_damage(self, path: str) -> str | None:
        """Why a checkpoint cannot be read, in one line; None if all of it can."""

    @abc.abstractmethod
    def listed_checkpoint(self, folder: str) -> str | None:
        """The checkpoint that a folder lists as its latest, unread; None if it lists none."""

    @abc.abstractmethod
    def copy_checkpoint(self, path: str, folder: str) -> str:
        """Copies a complete checkpoint into a folder, without listing it there.

        Returns:
            The path of the copy.
        """

    @abc.abstractmethod
    def keep_only_checkpoint(self, path: str) -> None:
        """Lists a checkpoint as the only one of its folder, then removes the others."""
