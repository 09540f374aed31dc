"""Distribution strategies by name: one device, several GPUs, several machines, TPU."""

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import tensorflow as tf

from albert_tf import hardware
from albert_tf.engines.device_options import PROCESS_FLAGS, DeviceOptions, started_by_srun
from albert_tf.engines.devices import Devices, check_all_devices, check_options, check_tpu_cores
from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.cluster import find_cluster
from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, tensorflow_reason


@dataclasses.dataclass(eq=False)
class TensorFlowDevices(Devices):
    """The devices of a strategy.

    Attributes:
        strategy: how a batch is spread over devices; TensorFlow's own by default.
        workers: the processes that train together; this one alone by default.
        jit_compile: whether XLA compiles each step; None: on GPUs only. TPUs always do.
        within_xla: whether the caller has XLA compile the whole training step.
        jax_kernels: whether the training step, on a TPU, uses the kernels of the JAX engine.
        plain: whether the training step, on a CPU, does without kernels of our own.
    """

    framework = "TensorFlow"

    strategy: tf.distribute.Strategy = dataclasses.field(default_factory=tf.distribute.get_strategy)
    workers: Workers = dataclasses.field(default_factory=TensorFlowWorkers)
    jit_compile: bool | None = None
    within_xla: bool = False
    jax_kernels: bool = False
    plain: bool = False

    @property
    def num_replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    @property
    def is_tpu(self) -> bool:
        return isinstance(self.strategy, tf.distribute.TPUStrategy)

    @property
    def makes_batches_locally(self) -> bool:
        # A TPU that is reached by name makes them on its own machines.
        return not self.is_tpu or not self.strategy.cluster_resolver.cluster_spec().as_dict()

    @property
    def needs_xla(self) -> bool:
        """Whether the parts of a step between communications are compiled into programs."""
        if self.within_xla or has_any("TPU"):  # everything is compiled there
            return False
        # On CPUs, bfloat16 takes twice as long with XLA: docs/performance.md.
        return has_any("GPU") if self.jit_compile is None else self.jit_compile

    def scope(self) -> AbstractContextManager:
        return self.strategy.scope()

    def _describe(self) -> str:
        devices = [tf.DeviceSpec.from_string(d) for d in self.strategy.extended.worker_devices]
        names = ", ".join(f"{device.device_type}:{device.device_index}" for device in devices)
        several = isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)
        name = "MultiWorkerMirroredStrategy" if several else type(self.strategy).__name__
        return f"{name} over {self.num_replicas} replica(s): {names}"

    @property
    def _gpu_details(self) -> dict[str, Any] | None:
        """What is known of the first GPU; None if the strategy uses none."""
        if "GPU" not in "".join(self.strategy.extended.worker_devices):
            return None
        gpus = tf.config.list_physical_devices("GPU")
        return tf.config.experimental.get_device_details(gpus[0]) if gpus else {}

    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        if peak_tflops:
            return peak_tflops * 1e12 * self.num_replicas
        if self.is_tpu:
            # All chips of all hosts compute, whether a chip is one replica or two.
            return hardware.local_tpu_peak_flops() * self.strategy.extended.num_hosts or None
        peak = hardware.gpu_peak((self._gpu_details or {}).get("device_name") or "")
        return peak * 1e12 * self.num_replicas if peak else None

    def preferred_dtype(self) -> tuple[str, str]:
        if self.is_tpu:
            return hardware.tpu_precision()
        if (gpu := self._gpu_details) is not None:
            return hardware.gpu_precision(
                gpu.get("device_name", "this GPU"), gpu.get("compute_capability", (0, 0))
            )
        return hardware.xla_cpu_precision() if self.jit_compile else hardware.cpu_precision()

    def memory_peak(self) -> int | None:
        gpus = tf.config.list_logical_devices("GPU")
        names = [device.name.removeprefix("/device:") for device in gpus]
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in names]
        return max(peaks, default=None)


def has_any(kind: str) -> bool:
    """Return whether there are devices of a kind: "CPU", "GPU" or "TPU"."""
    return bool(tf.config.list_logical_devices(kind))


# A strategy, and the workers that it spreads batches over.
Chosen: TypeAlias = tuple[tf.distribute.Strategy, TensorFlowWorkers]


def _alone(strategy: tf.distribute.Strategy) -> Chosen:
    return strategy, TensorFlowWorkers()


def _one_device(options: DeviceOptions) -> Chosen:
    gpus = tf.config.list_logical_devices("GPU")
    return _alone(tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0"))


def _mirrored(options: DeviceOptions) -> Chosen:
    wanted = options.num_replicas
    if gpus := tf.config.list_physical_devices("GPU"):
        if wanted > len(gpus):
            raise InputError(f"`num_replicas`={wanted}: this machine has {len(gpus)} GPUs")
        count = wanted or len(gpus)
        return _alone(tf.distribute.MirroredStrategy([f"/gpu:{i}" for i in range(count)]))
    # A rehearsal on one machine: parts of the CPU stand in for devices.
    _split_cpu(max(wanted, 1))
    return _alone(
        tf.distribute.MirroredStrategy(
            [f"/cpu:{i}" for i in range(max(wanted, 1))],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    )


def _split_cpu(parts: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    existing = len(tf.config.get_logical_device_configuration(cpu) or [None])
    if existing >= parts:
        return
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * parts
        )
    except RuntimeError:  # TensorFlow has started, and the CPU stays as it is
        raise InputError(
            f"`num_replicas`={parts}: the CPU is already split into {existing} parts"
        ) from None


def _multi_worker(options: DeviceOptions) -> Chosen:
    check_all_devices(options)
    return workers.join(find_cluster(os.environ))


def _tpu(options: DeviceOptions) -> Chosen:
    if options.jit_compile is False:
        raise InputError("`jit_compile`=False: a TPU runs only what XLA compiles; leave it unset")
    address = options.master or options.tpu_name or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address, zone=options.tpu_zone, project=options.gcp_project
        )
        if address != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        argument = "tpu" if options.tpu else "master" if options.master else "tpu_name"
        reason = tensorflow_reason(error)
        if address == "local":
            reason = "this machine has none that TensorFlow finds; a TPU VM needs albert_tf[tpu]"
        raise InputError(f"`{argument}`={address}: no TPU available ({reason})") from None
    check_tpu_cores(options, strategy.num_replicas_in_sync)
    return _alone(strategy)


def _auto(options: DeviceOptions) -> Chosen:
    if options.use_tpu:
        return _tpu(options)
    listed = "TF_CONFIG" in os.environ or started_by_srun()
    if listed and len(find_cluster(os.environ).addresses) > 1:
        return _multi_worker(options)
    if options.num_replicas > 1 or len(tf.config.list_physical_devices("GPU")) > 1:
        return _mirrored(options)
    return _one_device(options)


STRATEGIES: dict[str, Callable[[DeviceOptions], Chosen]] = {
    "auto": _auto,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def create_devices(options: DeviceOptions) -> TensorFlowDevices:
    """Return the devices that the options ask for, as of `Engine.create_devices`."""
    for name in (*PROCESS_FLAGS, "shard_optimizer_state"):
        if value := getattr(options, name):
            raise InputError(f"`{name}`={value}: needs `engine`=jax")
    options = _with_tpu(options)
    check_options(options, "tensorflow")
    strategy, workers = STRATEGIES[options.strategy](options)
    jax_kernels = _can_use_jax_kernels(options.attention, strategy)
    return TensorFlowDevices(
        strategy,
        workers,
        options.jit_compile,
        jax_kernels=jax_kernels,
        plain=options.attention == "plain",
    )


def _can_use_jax_kernels(attention: str, strategy: tf.distribute.Strategy) -> bool:
    """Return whether the TPU runs the kernels of the JAX engine, and JAX is installed.

    Raises:
        InputError: If they do not, and `attention` is "fused".
    """
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    chips = hardware.tpu_chips() if is_tpu and attention != "plain" else []
    runs = bool(chips) and all("jax" in hardware.GENERATIONS[chip].engines for chip in chips)
    if attention == "fused" and not runs:
        raise InputError("`attention`=fused: needs `engine`=jax, or a TPU v4 or later")
    installed = importlib.util.find_spec("jax") is not None
    if attention == "fused" and not installed:
        raise InputError("`attention`=fused: needs jax: pip install 'albert-tf[tpu]'")
    return runs and installed


def _with_tpu(options: DeviceOptions) -> DeviceOptions:
    """Return the options with `tpu` expanded."""
    if options.tpu is not None:
        for name, allowed in (("use_tpu", True), ("tpu_name", options.tpu), ("master", None)):
            if (value := getattr(options, name)) not in (None, allowed):
                raise InputError(
                    f"`tpu`={options.tpu}: is short for `use_tpu`=True with `tpu_name`="
                    f"{options.tpu}, which contradicts `{name}`={value}"
                )
        options = dataclasses.replace(options, use_tpu=True, tpu_name=options.tpu)
    return options
