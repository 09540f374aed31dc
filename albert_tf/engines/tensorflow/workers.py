"""Processes that train together: who is the chief, what they agree on, and one that is lost.

A process that trains alone is its own chief, and agrees with itself at once. Everything here is
called by all workers at the same places, since each waits for the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.engines.tensorflow.rendezvous import meet
from albert_tf.errors import InputError, WorkerLost
from albert_tf.files import tensorflow_reason

# What TensorFlow raises in those who wait for a worker that has gone or does not answer.
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
_ABOUT_WORKERS = re.compile(r"[Cc]ollective|CoordinationService|WorkerService|heartbeat")

_LINGER_SECONDS = 1.0
_FAILED = 255  # above every signal's number


class _Workers(NamedTuple):
    cluster: Cluster
    sum: Callable[[tf.Tensor], tf.Tensor]


# TensorFlow can join one cluster in the life of a process, so this is the process's, too.
_joined: _Workers | None = None


def join(cluster: Cluster, settings: dict[str, str]) -> tf.distribute.Strategy:
    """Waits for all workers of a cluster, and makes the strategy over the devices of all.

    All-reduces go over NCCL between GPUs and in a ring over the network between CPUs.

    Args:
        cluster: the workers.
        settings: name -> value of what must be the same for all of them.

    Raises:
        InputError: this worker's address cannot be used, or the workers' settings differ.
        WorkerLost: the others do not come.
    """
    global _joined
    _share_gpus(cluster)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": len(tf.config.get_visible_devices("GPU"))},
        rpc_layer="grpc",
    )
    meet(cluster, {**settings, "TensorFlow": tf.__version__})
    heeded = signal.getsignal(signal.SIGTERM)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except (RuntimeError, ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"--strategy=multi_worker: worker {cluster.index} cannot serve at "
            f"{cluster.addresses[cluster.index]} ({tensorflow_reason(error)})"
        ) from None
    # TensorFlow takes SIGTERM to itself when it joins a cluster, so that nothing else hears of it.
    if heeded is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, heeded)
    _joined = _Workers(cluster, _sum_over(strategy, len(cluster.addresses)))
    return strategy


def _share_gpus(cluster: Cluster) -> None:
    """Leaves each process of a machine its own part of the GPUs that all of them see."""
    place, processes = cluster.here
    gpus = tf.config.list_physical_devices("GPU")
    on_node = os.environ.get("SLURM_GPUS_ON_NODE", "")
    if processes == 1 or str(len(gpus)) != on_node or not gpus:
        return  # nothing to share, or SLURM has shared them out already
    if len(gpus) % processes:
        raise InputError(
            f"SLURM_GPUS_ON_NODE={on_node}: the GPUs of a machine cannot be shared out evenly "
            f"among its {processes} tasks; ask for as many --ntasks-per-node as divide them"
        )
    count = len(gpus) // processes
    tf.config.set_visible_devices(gpus[place * count : (place + 1) * count], "GPU")


def count() -> int:
    """How many processes train together."""
    return len(_joined.cluster.addresses) if _joined else 1


def is_chief() -> bool:
    """Whether this process is the one that writes."""
    return _joined is None or _joined.cluster.index == 0


def describe() -> str:
    """Which worker this is, of how many; empty for a process alone."""
    if _joined is None:
        return ""
    addresses, index, _ = _joined.cluster
    return f"worker {index} of {len(addresses)} ({addresses[index]})"


def agree(number: int | None) -> int | None:
    """The largest of all workers' numbers, from 1 to 254; None where nobody has any."""
    if count() == 1:
        return number
    return max(_numbers(number or 0)) or None


def _numbers(own: int) -> list[int]:
    """Everybody's number, in the order of the workers."""
    values = [0.0] * count()
    values[_joined.cluster.index] = float(own)
    return [int(value) for value in _joined.sum(tf.constant(values)).numpy()]


def _sum_over(strategy: tf.distribute.Strategy, workers: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Makes the sum over all workers, of small whole numbers: as float32, which all devices add."""
    per_worker = strategy.num_replicas_in_sync // workers

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def total(values):
        def of_replica():
            # Once for each worker, however many replicas it has.
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return values * tf.cast(replica % per_worker == 0, tf.float32)

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(of_replica), axis=None)

    return total


@contextlib.contextmanager
def everyone() -> Iterator[None]:
    """Work that some workers do, or each does alone; at the end, all wait for all.

    Within the block nobody may wait for another.

    Raises:
        InputError: it went wrong with another worker; who fails raises what it met.
    """
    try:
        yield
    except Exception as error:
        if count() > 1 and not isinstance(error, (*_LOSSES, WorkerLost)):
            _numbers(_FAILED)
        raise
    if count() == 1:
        return
    results = _numbers(0)
    if _FAILED in results:
        number = results.index(_FAILED)
        raise InputError(
            f"worker {number} ({_joined.cluster.addresses[number]}) met an error, which it has "
            "printed; so all of them end"
        )


def from_chief(work: Callable[[], Any]) -> Any:
    """What `work` returns on the chief, the only one that calls it; a value that JSON can hold."""
    if count() == 1:
        return work()
    with everyone():
        text = json.dumps(work()).encode() if is_chief() else b""
    length = max(_numbers(len(text)))
    values = list(map(float, text)) if is_chief() else [0.0] * length
    return json.loads(bytes(map(int, _joined.sum(tf.constant(values)).numpy())))


@contextlib.contextmanager
def losses_named() -> Iterator[None]:
    """Turns TensorFlow's errors about a worker that has gone into one line.

    Raises:
        WorkerLost: another worker has ended, or does not answer.
    """
    try:
        yield
    except _LOSSES as error:
        if count() == 1 or not _ABOUT_WORKERS.search(str(error)):
            raise
        others = {int(n) for n in re.findall(r"task:(\d+)", str(error))} - {_joined.cluster.index}
        names = [f"{n} ({_joined.cluster.addresses[n]})" for n in sorted(others) if n < count()]
        raise WorkerLost(
            f"worker {', '.join(names) or '(another one)'} has ended or does not answer; "
            "when all have ended, start all again with the same command, which goes on from the "
            "newest checkpoint"
        ) from None
    except BaseException:
        linger()
        raise


def linger() -> None:
    """Before a process ends: leaves the others the time to hear what all have agreed on last."""
    if count() > 1:
        time.sleep(_LINGER_SECONDS)
