"""Distribution strategies by name: one device, several GPUs, several machines, TPU."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.cluster import find_cluster
from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.tensorflow_errors import tensorflow_reason


class Devices(NamedTuple):
    """The devices that a program runs on.

    Attributes:
        strategy: how a batch is spread over them.
        workers: the processes that they belong to.
    """

    strategy: tf.distribute.Strategy
    workers: Workers


def _alone(strategy: tf.distribute.Strategy) -> Devices:
    return Devices(strategy, TensorFlowWorkers())


def _one_device(options: DeviceOptions) -> Devices:
    gpus = tf.config.list_logical_devices("GPU")
    return _alone(tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0"))


def _mirrored(options: DeviceOptions) -> Devices:
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


def _multi_worker(options: DeviceOptions) -> Devices:
    if options.num_replicas:
        raise InputError(
            f"`num_replicas`={options.num_replicas}: is for `strategy`=mirrored; multi_worker uses "
            "all GPUs that a process sees"
        )
    # Paths may differ between machines that mount the same files in different places.
    may_differ = ("_file", "_dir", "_checkpoint", "strategy")
    settings = {
        name: str(value)
        for name, value in dataclasses.asdict(options).items()
        if not name.endswith(may_differ)
    }
    return Devices(*workers.join(find_cluster(os.environ), settings))


def _tpu(options: DeviceOptions) -> Devices:
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
    cores = strategy.num_replicas_in_sync
    if options.num_tpu_cores not in (0, cores):
        raise InputError(
            f"`num_tpu_cores`={options.num_tpu_cores}: the TPU {address} has {cores} cores"
        )
    return _alone(strategy)


def _auto(options: DeviceOptions) -> Devices:
    if options.use_tpu:
        return _tpu(options)
    if "TF_CONFIG" in os.environ and len(find_cluster(os.environ).addresses) > 1:
        return _multi_worker(options)
    if options.num_replicas > 1 or len(tf.config.list_physical_devices("GPU")) > 1:
        return _mirrored(options)
    return _one_device(options)


STRATEGIES: dict[str, Callable[[DeviceOptions], Devices]] = {
    "auto": _auto,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def create_devices(options: DeviceOptions) -> Devices:
    """The devices that the options ask for.

    Raises:
        InputError: there is no such strategy, options contradict each other, the devices do not
            exist, or Keras runs on a backend other than TensorFlow.
        WorkerLost: another worker does not come.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"KERAS_BACKEND={keras.backend.backend()}: training here needs the tensorflow backend"
        )
    if options.strategy not in STRATEGIES:
        raise InputError(f"`strategy`={options.strategy}: must be one of {', '.join(STRATEGIES)}")
    _check_jax_options(options)
    options = _with_tpu(options)
    return STRATEGIES[options.strategy](options)


def _check_jax_options(options: DeviceOptions) -> None:
    """Raises InputError for options that this engine does not have."""
    if options.attention == "fused":
        raise InputError("`attention`=fused: needs `engine`=jax")
    names = ("coordinator_address", "num_processes", "process_id", "shard_optimizer_state")
    for name in names:
        if value := getattr(options, name):
            raise InputError(f"`{name}`={value}: needs `engine`=jax")


def _with_tpu(options: DeviceOptions) -> DeviceOptions:
    """The options with `tpu` expanded."""
    if options.tpu is not None:
        for name, allowed in (("use_tpu", True), ("tpu_name", options.tpu), ("master", None)):
            if (value := getattr(options, name)) not in (None, allowed):
                raise InputError(
                    f"`tpu`={options.tpu}: is short for `use_tpu`=True with `tpu_name`="
                    f"{options.tpu}, which contradicts `{name}`={value}"
                )
        options = dataclasses.replace(options, use_tpu=True, tpu_name=options.tpu)
    if options.use_tpu and options.strategy not in ("auto", "tpu"):
        raise InputError(f"`strategy`={options.strategy}: contradicts `use_tpu`=True")
    if options.use_tpu is False and options.strategy == "tpu":
        raise InputError("`strategy`=tpu: contradicts `use_tpu`=False")
    return options


def describe(strategy: tf.distribute.Strategy, workers: Workers) -> str:
    """One line: which strategy, over which devices, and which of the workers this process is."""
    devices = ", ".join(
        tf.DeviceSpec.from_string(d).device_type + f":{tf.DeviceSpec.from_string(d).device_index}"
        for d in strategy.extended.worker_devices
    )
    here = f"; this is {workers.describe()}" if workers.count > 1 else ""
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    name = "MultiWorkerMirroredStrategy" if several else type(strategy).__name__
    replicas = strategy.num_replicas_in_sync
    return f"{name} over {replicas} replica(s): {devices}{here}"


def makes_batches_locally(strategy: tf.distribute.Strategy) -> bool:
    """Whether batches are made in this process, so that Python code can run in the pipeline.

    A TPU that is reached by name makes them on its own machines.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return not strategy.cluster_resolver.cluster_spec().as_dict()
