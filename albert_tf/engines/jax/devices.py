"""The devices of the JAX engine: those of this process, or of all processes that train together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import keras
import numpy as np
from jax.sharding import Mesh

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.jax.workers import JaxWorkers, join, runs_with_others
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.hardware.precision import gpu_precision, tpu_precision, xla_cpu_precision
from albert_tf.quiet import quiet_import

# The axis of the mesh over which every batch is split.
DATA = "data"


class Devices(NamedTuple):
    """The devices that a program runs on.

    Attributes:
        mesh: the devices in the order of their shares of a batch, along the axis `DATA`.
        workers: the processes that they belong to.
    """

    mesh: Mesh
    workers: Workers


def _mesh(devices: list[jax.Device]) -> Mesh:
    # The rows that a process makes must be consecutive. TPU numbers the devices of a slice by
    # their place in it, so those of one host are not.
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(ordered), (DATA,))


def _one_device(options: DeviceOptions) -> Devices:
    return Devices(_mesh(_local_devices()[:1]), JaxWorkers())


def _mirrored(options: DeviceOptions) -> Devices:
    wanted = options.num_replicas
    if wanted > 1:
        # A rehearsal on a machine without accelerators: parts of the CPU stand in for devices.
        with contextlib.suppress(RuntimeError):  # JAX has started, and the CPU stays as it is
            jax.config.update("jax_num_cpu_devices", wanted)
    devices = _local_devices()
    if wanted > len(devices):
        raise InputError(f"`num_replicas`={wanted}: this machine has {_count(devices)}")
    return Devices(_mesh(devices[: wanted or len(devices)]), JaxWorkers())


def _multi_worker(options: DeviceOptions) -> Devices:
    if options.num_replicas:
        raise InputError(
            f"`num_replicas`={options.num_replicas}: is for `strategy`=mirrored; multi_worker uses "
            "all devices that a process sees"
        )
    with quiet_import():  # as in `_local_devices`
        workers = join(options)
        devices = jax.devices()
    return Devices(_mesh(devices), workers)


def _tpu(options: DeviceOptions) -> Devices:
    devices = _multi_worker(options) if runs_with_others(options) else _mirrored(options)
    kind = jax.default_backend()
    if kind != "tpu":
        argument = "tpu" if options.tpu else "use_tpu" if options.use_tpu else "strategy"
        raise InputError(
            f"`{argument}`={getattr(options, argument)}: no TPU available; JAX runs on {kind} here "
            "(a TPU VM needs albert_tf[jax-tpu])"
        )
    cores = devices.mesh.size
    if options.num_tpu_cores not in (0, cores):
        raise InputError(f"`num_tpu_cores`={options.num_tpu_cores}: there are {cores} devices")
    return devices


def _auto(options: DeviceOptions) -> Devices:
    if options.use_tpu or options.tpu:
        return _tpu(options)
    return _multi_worker(options) if runs_with_others(options) else _mirrored(options)


STRATEGIES: dict[str, Callable[[DeviceOptions], Devices]] = {
    "auto": _auto,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def create_devices(options: DeviceOptions) -> Devices:
    """The devices that the options ask for; joins the other processes.

    Raises:
        InputError: there is no such strategy, options contradict each other, the devices do not
            exist, or Keras runs on a backend other than JAX.
        WorkerLost: another process does not come.
    """
    if keras.backend.backend() != "jax":
        raise InputError(
            f"KERAS_BACKEND={keras.backend.backend()}: `engine`=jax needs the backend jax; start "
            "another process for it"
        )
    if options.strategy not in STRATEGIES:
        raise InputError(f"`strategy`={options.strategy}: must be one of {', '.join(STRATEGIES)}")
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
    if options.use_tpu is False and options.strategy == "tpu":
        raise InputError("`strategy`=tpu: contradicts `use_tpu`=False")
    if (options.use_tpu or options.tpu) and options.strategy not in ("auto", "tpu"):
        raise InputError(f"`strategy`={options.strategy}: contradicts `use_tpu`=True")
    return STRATEGIES[options.strategy](options)


def _local_devices() -> list[jax.Device]:
    # Where libtpu is installed but no TPU is there, it complains when JAX looks for devices.
    with quiet_import():
        return jax.local_devices()


def _count(devices: list[jax.Device]) -> str:
    return f"{len(devices)} device{'s' * (len(devices) != 1)} ({devices[0].device_kind})"


def describe(devices: Devices) -> str:
    """One line: how many devices of which kind, and which of the processes this is."""
    mesh, workers = devices
    kind = mesh.devices[0].device_kind
    here = f"; this is {workers.describe()}" if workers.count > 1 else ""
    return f"JAX {jax.__version__} over {mesh.size} replica(s): {kind}{here}"


def precision_of(device: jax.Device) -> tuple[str, str]:
    """The precision in which a device multiplies fastest, and why."""
    if device.platform == "tpu":
        return tpu_precision()
    if device.platform == "gpu":
        major, minor = device.compute_capability.split(".")
        return gpu_precision(device.device_kind, (int(major), int(minor)))
    return xla_cpu_precision()
