"""The devices of an engine, and which of them options ask for."""

import abc
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import keras

from albert_tf.engines.device_options import STRATEGIES, DeviceOptions
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.logs import counted


class Devices(abc.ABC):
    """The devices that a program runs on, and the processes that they belong to.

    Messages call what runs on them `framework`.
    """

    framework: ClassVar[str]
    workers: Workers

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

    def scope(self) -> AbstractContextManager:
        """Return a block in which models and optimizers must be created."""
        return nullcontext()

    def describe(self) -> str:
        """Return one line about devices and workers."""
        here = f"; this is {self.workers.describe()}" if self.workers.count > 1 else ""
        return f"{self._describe()}{here}"

    @abc.abstractmethod
    def _describe(self) -> str:
        """Return how many replicas there are, and what they run on."""

    @abc.abstractmethod
    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        """Return the operations per second of all devices together; None if unknown.

        `peak_tflops` are TFLOP/s of one replica, where the user gives it; 0 to look it up.
        """

    @abc.abstractmethod
    def preferred_dtype(self) -> tuple[str, str]:
        """Return the precision in which the devices multiply fastest, as in `dtype`, and why."""

    @abc.abstractmethod
    def memory_peak(self) -> int | None:
        """Return the peak memory use of the fullest local device, in bytes; None if unknown."""

    def per_replica(self, argument: str, batch_size: int) -> int:
        """Return the examples of a global batch that each replica computes.

        Raises:
            InputError: If the batch, called `argument`, does not divide by the replicas.
        """
        replicas = self.num_replicas
        if batch_size < 1 or batch_size % replicas:
            raise InputError(
                f"`{argument}`={batch_size}: must be a multiple of the {replicas} replicas, "
                f"such as {max(1, round(batch_size / replicas)) * replicas}"
            )
        return batch_size // replicas


def check_options(options: DeviceOptions, backend: str) -> None:
    """Check what every engine asks of options.

    Raises:
        InputError: If Keras runs on another backend than the engine needs, there is no such
            strategy, or it contradicts `use_tpu` or `num_replicas`.
    """
    if keras.backend.backend() != backend:
        raise InputError(
            f"KERAS_BACKEND={keras.backend.backend()}: `engine`={backend} needs the backend "
            f"{backend}; start another process for it"
        )
    name = options.strategy
    if name not in STRATEGIES:
        raise InputError(f"`strategy`={name}: must be one of {', '.join(STRATEGIES)}")
    if options.use_tpu is False and name == "tpu":
        raise InputError("`strategy`=tpu: contradicts `use_tpu`=False")
    if (options.use_tpu or options.tpu) and name not in ("auto", "tpu"):
        raise InputError(f"`strategy`={name}: contradicts `use_tpu`=True")


def check_all_devices(options: DeviceOptions) -> None:
    """Raise InputError for `num_replicas` where a process uses all devices that it sees."""
    if options.num_replicas:
        raise InputError(
            f"`num_replicas`={options.num_replicas}: is for `strategy`=mirrored; multi_worker uses "
            "all devices that a process sees"
        )


def check_tpu_cores(options: DeviceOptions, found: int) -> None:
    """Raise InputError if a TPU has another number of cores than the options require."""
    if options.num_tpu_cores not in (0, found):
        raise InputError(
            f"`num_tpu_cores`={options.num_tpu_cores}: the TPU has {counted(found, 'core')}"
        )
