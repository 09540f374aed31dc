"""The devices of the JAX engine: those of this process, or of all processes that train together."""

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.devices import Devices, check_all_devices, check_options, check_tpu_cores
from albert_tf.engines.jax.workers import JaxWorkers, join, runs_with_others
from albert_tf.environment import quiet_import
from albert_tf.errors import InputError
from albert_tf.hardware.peaks import gpu_peak, tpu_peak_flops
from albert_tf.hardware.precision import gpu_precision, tpu_precision, xla_cpu_precision
from albert_tf.logs import counted

# The axis of the mesh over which every batch is split.
DATA = "data"


class JaxDevices(Devices):
    """The devices of a mesh.

    They are in the order of their shares of a batch, along the axis `DATA`; by default, they belong
    to this process alone. For `attention`, see `create_kernels`.
    """

    framework = "JAX"

    def __init__(
        self,
        mesh: Mesh,
        workers: JaxWorkers | None = None,
        attention: str = "auto",
        shard_optimizer_state: bool = False,
    ):
        self.mesh = mesh
        self.workers = workers or JaxWorkers()
        self.attention = attention
        self.shard_optimizer_state = shard_optimizer_state

    @property
    def _first(self) -> jax.Device:
        return self.mesh.devices[0]

    @property
    def num_replicas(self) -> int:
        return self.mesh.size

    @property
    def platform(self) -> str:
        """The name of the kind of devices: "cpu", "gpu" or "tpu"."""
        return self._first.platform

    @property
    def kind(self) -> str:
        """What JAX calls the devices, such as "TPU v6 lite"."""
        return self._first.device_kind

    @property
    def is_tpu(self) -> bool:
        return self.platform == "tpu"

    def _describe(self) -> str:
        return f"JAX {jax.__version__} over {self.mesh.size} replica(s): {self.kind}"

    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        kind = self.kind
        peak = peak_tflops * 1e12 or (tpu_peak_flops(kind) if self.is_tpu else None)
        if not peak and self.platform == "gpu":
            peak = (gpu_peak(kind) or 0.0) * 1e12
        return peak * self.num_replicas if peak else None

    def preferred_dtype(self) -> tuple[str, str]:
        if self.is_tpu:
            return tpu_precision()
        if self.platform == "gpu":
            major, minor = self._first.compute_capability.split(".")
            return gpu_precision(self.kind, (int(major), int(minor)))
        return xla_cpu_precision()

    def memory_peak(self) -> int | None:
        statistics = [device.memory_stats() for device in self.mesh.local_devices]
        peaks = [each["peak_bytes_in_use"] for each in statistics if each]
        return max(peaks, default=None)


# Devices, and the processes that they belong to.
Chosen: TypeAlias = tuple[list[jax.Device], JaxWorkers]


def _one_device(options: DeviceOptions) -> Chosen:
    return _local_devices()[:1], JaxWorkers()


def _mirrored(options: DeviceOptions) -> Chosen:
    wanted = options.num_replicas
    if wanted > 1:
        # A rehearsal on a machine without accelerators: parts of the CPU stand in for devices.
        with contextlib.suppress(RuntimeError):  # JAX has started, and the CPU stays as it is
            jax.config.update("jax_num_cpu_devices", wanted)
    devices = _local_devices()
    if wanted > len(devices):
        raise InputError(f"`num_replicas`={wanted}: this machine has {_count(devices)}")
    return devices[: wanted or len(devices)], JaxWorkers()


def _multi_worker(options: DeviceOptions) -> Chosen:
    check_all_devices(options)
    workers = join(options)
    return jax.devices(), workers


def _tpu(options: DeviceOptions) -> Chosen:
    devices, workers = _with_others(options)
    kind = jax.default_backend()
    if kind != "tpu":
        argument = "tpu" if options.tpu else "use_tpu" if options.use_tpu else "strategy"
        raise InputError(
            f"`{argument}`={getattr(options, argument)}: no TPU available; JAX runs on {kind} here "
            "(a TPU VM needs albert_tf[jax-tpu])"
        )
    check_tpu_cores(options, len(devices))
    return devices, workers


def _auto(options: DeviceOptions) -> Chosen:
    if options.use_tpu or options.tpu:
        return _tpu(options)
    return _with_others(options)


def _with_others(options: DeviceOptions) -> Chosen:
    return _multi_worker(options) if runs_with_others(options) else _mirrored(options)


STRATEGIES: dict[str, Callable[[DeviceOptions], Chosen]] = {
    "auto": _auto,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def create_devices(options: DeviceOptions) -> JaxDevices:
    """Return the devices that the options ask for; join the other processes.

    Raises:
        InputError: If options contradict each other, or the devices do not exist.
        WorkerLost: If another process does not come.
    """
    check_options(options, "jax")
    for name in ("tpu", "tpu_name"):
        if getattr(options, name) not in (None, "local"):
            raise InputError(
                f"`{name}`={getattr(options, name)}: `engine`=jax runs on the TPU VMs themselves; "
                f"start the same command on every one of them, with `{name}`=local or without it"
            )
    if options.master:
        raise InputError(f"`master`={options.master}: is for `engine`=tensorflow")
    if options.jit_compile is False:
        raise InputError("`jit_compile`=False: `engine`=jax compiles every step; leave it unset")
    devices, workers = STRATEGIES[options.strategy](options)
    if threading.current_thread() is threading.main_thread():
        # Where libtpu is installed, it has made the process ignore the end of its terminal.
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGHUP) or signal.SIG_DFL)
    # The rows that a process makes must be consecutive. TPU numbers the devices of a slice by
    # their place in it, so those of one host are not.
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    mesh = Mesh(np.array(ordered), (DATA,))
    return JaxDevices(mesh, workers, options.attention, options.shard_optimizer_state)


def _local_devices() -> list[jax.Device]:
    # Where libtpu is installed but no TPU is there, it complains when JAX looks for devices.
    with quiet_import():
        return jax.local_devices()


def _count(devices: list[jax.Device]) -> str:
    return f"{counted(len(devices), 'device')} ({devices[0].device_kind})"
