"""Processes of `jax.distributed`: how they join, and how losses show."""

import os
import re

import jax
import numpy as np
from jax._src import distributed  # what the processes write to each other
from jax.experimental import multihost_utils

from albert_tf.engines import early_failures
from albert_tf.engines.device_options import PROCESS_FLAGS, DeviceOptions, started_by_srun
from albert_tf.engines.steps import accepted_arguments
from albert_tf.engines.workers import Board, Workers
from albert_tf.environment import quiet_import
from albert_tf.errors import InputError, WorkerLost
from albert_tf.hardware.peaks import tpu_chips

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


def runs_with_others(options: DeviceOptions) -> bool:
    """Return whether this process is one of several, by flags, SLURM or hosts of a slice."""
    if any(getattr(options, name) is not None for name in PROCESS_FLAGS) or started_by_srun():
        return True
    # JAX asks Cloud's metadata server, which exists on TPU VMs only, how many hosts there are.
    return bool(tpu_chips()) and os.environ.get("JAX_PLATFORMS", "tpu") != "cpu"


def join(options: DeviceOptions) -> JaxWorkers:
    """Wait for all processes of a run.

    JAX finds the others from the flags or, without them, from SLURM or the metadata of a TPU
    slice. It can join one run in the life of a process.

    Raises:
        InputError: If flags are missing or invalid.
        WorkerLost: If the others do not come.
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
