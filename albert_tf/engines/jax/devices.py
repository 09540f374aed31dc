"""The devices of the JAX engine: those of this process, or of all processes that train together.

Processes join by `jax.distributed`, and lose each other by its errors.
"""

import contextlib
import dataclasses
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import TypeAlias

import jax
import numpy as np
from jax._src import distributed  # what the processes write to each other
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from albert_tf import hardware
from albert_tf.engines import early_failures
from albert_tf.engines.device_options import PROCESS_FLAGS, DeviceOptions, started_by_srun
from albert_tf.engines.devices import Devices, check_all_devices, check_options, check_tpu_cores
from albert_tf.engines.steps import accepted_arguments
from albert_tf.engines.workers import Board, Workers
from albert_tf.environment import quiet_import
from albert_tf.errors import InputError, WorkerLost
from albert_tf.logs import counted

# The axis of the mesh over which every batch is split.
DATA = "data"

# Seconds in which all processes must have started.
_PATIENCE = 300
# Seconds after which a process that does not answer counts as dead. JAX then ends the others with
# SIGABRT, unless the collective operation that they wait for has failed before.
_HEARTBEAT = 30
# How long to wait for the failure of another process: as long as it takes.
_BOARD_MILLISECONDS = 10**10


class JaxWorkers(Workers):
    """The processes of a run; a single one without arguments."""

    _errors = (jax.errors.JaxRuntimeError,)
    _about_workers = re.compile(
        r"Gloo|NCCL|[Cc]ollective|[Cc]oordination|heartbeat|Connection (closed|reset)|UNAVAILABLE|"
        r"DEADLINE_EXCEEDED|Socket closed"
    )


def _runs_with_others(options: DeviceOptions) -> bool:
    """Return whether this process is one of several, by flags, SLURM or hosts of a slice."""
    if any(getattr(options, name) is not None for name in PROCESS_FLAGS) or started_by_srun():
        return True
    # JAX asks Cloud's metadata server, which exists on TPU VMs only, how many hosts there are.
    return bool(hardware.tpu_chips()) and os.environ.get("JAX_PLATFORMS", "tpu") != "cpu"


def _join(options: DeviceOptions) -> JaxWorkers:
    """Wait for all processes of a run.

    JAX finds the others from the flags or, without them, from SLURM or the metadata of a TPU
    slice. It can join one run in the life of a process.
    """
    _check_flags(options)
    early_failures.has_met.set()
    try:
        jax.distributed.initialize(
            options.coordinator_address,
            options.num_processes,
            options.process_id,
            # Flags describe the processes by themselves, so JAX need not look for more.
            cluster_detection_method=None if options.num_processes is None else "deactivate",
            initialization_timeout=_PATIENCE,
            # Before 0.7, JAX has another argument for it.
            **accepted_arguments(jax.distributed.initialize, heartbeat_timeout_seconds=_HEARTBEAT),
        )
    except ValueError as error:
        raise InputError(
            "`strategy`=multi_worker: set `coordinator_address`, `num_processes` and `process_id`, "
            f"or start the processes with SLURM's srun or on a TPU slice ({error})"
        ) from None
    except (RuntimeError, jax.errors.JaxRuntimeError) as error:
        reason = str(error).splitlines()[0]
        if "DEADLINE_EXCEEDED" in reason:
            raise WorkerLost(
                f"not all processes have started within {_PATIENCE} seconds; start the same "
                "command on all of them"
            ) from None
        raise InputError(f"`strategy`=multi_worker: cannot join the others ({reason})") from None
    with quiet_import():  # libtpu complains without a TPU, as in `_local_devices`
        count, index = jax.process_count(), jax.process_index()
    if count == 1:
        return JaxWorkers()
    names = [f"process {number}" for number in range(count)]
    client = distributed.global_state.client
    board = Board(
        client.key_value_set, lambda key: client.blocking_key_value_get(key, _BOARD_MILLISECONDS)
    )
    return JaxWorkers(names, index, _sum_over_processes, board)


def _check_flags(options: DeviceOptions) -> None:
    given = {name: getattr(options, name) for name in PROCESS_FLAGS}
    if all(value is None for value in given.values()):
        return
    for name, value in given.items():
        if value is None:
            raise InputError(
                f"`{name}`: is missing; `coordinator_address` (host:port of process 0), "
                "`num_processes` and `process_id` (from 0) belong together"
            )
    address, count, index = given.values()
    if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:/]+):\d{1,5}", address):
        raise InputError(f"`coordinator_address`={address}: must be host:port")
    if count < 1:
        raise InputError(f"`num_processes`={count}: must be at least 1")
    if not 0 <= index < count:
        raise InputError(f"`process_id`={index}: must be from 0 to {count - 1}")


def _sum_over_processes(values: list[float]) -> list[float]:
    gathered = multihost_utils.process_allgather(np.array(values, np.float32))
    return gathered.sum(axis=0).tolist()


@dataclasses.dataclass(eq=False)
class JaxDevices(Devices):
    """The devices of a mesh.

    They are in the order of their shares of a batch, along the axis `DATA`; by default, they belong
    to this process alone. For `attention`, see `create_kernels`.
    """

    framework = "JAX"

    mesh: Mesh
    workers: JaxWorkers = dataclasses.field(default_factory=JaxWorkers)
    attention: str = "auto"
    shard_optimizer_state: bool = False

    @property
    def num_replicas(self) -> int:
        return self.mesh.size

    @property
    def platform(self) -> str:
        """The name of the kind of devices: "cpu", "gpu" or "tpu"."""
        return self.mesh.devices[0].platform

    @property
    def kind(self) -> str:
        """What JAX calls the devices, such as "TPU v6 lite"."""
        return self.mesh.devices[0].device_kind

    @property
    def is_tpu(self) -> bool:
        return self.platform == "tpu"

    def _describe(self) -> str:
        return f"JAX {jax.__version__} over {self.mesh.size} replica(s): {self.kind}"

    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        kind = self.kind
        peak = peak_tflops * 1e12 or (hardware.tpu_peak_flops(kind) if self.is_tpu else None)
        if not peak and self.platform == "gpu":
            peak = (hardware.gpu_peak(kind) or 0.0) * 1e12
        return peak * self.num_replicas if peak else None

    def preferred_dtype(self) -> tuple[str, str]:
        if self.is_tpu:
            return hardware.tpu_precision()
        if self.platform == "gpu":
            major, minor = self.mesh.devices[0].compute_capability.split(".")
            return hardware.gpu_precision(self.kind, (int(major), int(minor)))
        return hardware.xla_cpu_precision()

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
        found = f"{counted(len(devices), 'device')} ({devices[0].device_kind})"
        raise InputError(f"`num_replicas`={wanted}: this machine has {found}")
    return devices[: wanted or len(devices)], JaxWorkers()


def _multi_worker(options: DeviceOptions) -> Chosen:
    check_all_devices(options)
    workers = _join(options)
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
    return _tpu(options) if options.use_tpu or options.tpu else _with_others(options)


def _with_others(options: DeviceOptions) -> Chosen:
    return _multi_worker(options) if _runs_with_others(options) else _mirrored(options)


STRATEGIES: dict[str, Callable[[DeviceOptions], Chosen]] = {
    "auto": _auto,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def create_devices(options: DeviceOptions) -> JaxDevices:
    """Return the devices that the options ask for, as of `Engine.create_devices`."""
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
