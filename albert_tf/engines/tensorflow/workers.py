"""Workers of TensorFlow's `MultiWorkerMirroredStrategy`: how they join, and how losses show."""

import contextlib
import json
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import context

from albert_tf.engines import early_failures
from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.engines.workers import Board, Workers
from albert_tf.errors import InputError, WorkerLost, tensorflow_reason

_logger = logging.getLogger(__name__)

# Seconds until a worker gives up waiting, and until it reports which others are missing.
WAIT_SECONDS, NOTE_SECONDS = 600.0, 15.0

_ANSWER_SECONDS = 5.0  # for one line over an open connection
_LINE_BYTES = 1 << 20


class TensorFlowWorkers(Workers):
    """The workers of a cluster; a single process without arguments."""

    # What TensorFlow raises in workers that wait for one that has died or does not answer.
    _errors = (
        tf.errors.UnavailableError,
        tf.errors.DeadlineExceededError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.FailedPreconditionError,
        tf.errors.InternalError,
        tf.errors.UnknownError,
    )
    _about_workers = re.compile(r"[Cc]ollective|CoordinationService|WorkerService|heartbeat")


def join(cluster: Cluster) -> tuple[tf.distribute.Strategy, TensorFlowWorkers]:
    """Wait for all workers of a cluster, and create the strategy over all of their devices.

    All-reduces go over NCCL between GPUs and in a ring over the network between CPUs. TensorFlow
    can join one cluster in the life of a process.

    Raises:
        InputError: If this worker's address cannot be used, or the workers' clusters differ.
        WorkerLost: If the others do not come.
    """
    _share_gpus(cluster)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": len(tf.config.get_visible_devices("GPU"))},
        rpc_layer="grpc",
    )
    meet(cluster)
    sigterm_handler = signal.getsignal(signal.SIGTERM)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except (RuntimeError, ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"`strategy`=multi_worker: worker {cluster.index} cannot serve at "
            f"{cluster.addresses[cluster.index]} ({tensorflow_reason(error)})"
        ) from None
    # TensorFlow installs a SIGTERM handler of its own when it joins a cluster.
    if sigterm_handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, sigterm_handler)
    total = _sum_over(strategy, len(cluster.addresses))
    service = context.context()
    board = Board(service.set_config_key_value, service.get_config_key_value)
    return strategy, TensorFlowWorkers(cluster.addresses, cluster.index, total, board)


def _share_gpus(cluster: Cluster) -> None:
    """Leave each process of a machine its own part of the GPUs that all of them see."""
    local_rank, processes = cluster.here
    gpus = tf.config.list_physical_devices("GPU")
    on_node = os.environ.get("SLURM_GPUS_ON_NODE", "")
    if processes == 1 or str(len(gpus)) != on_node or not gpus:
        return  # nothing to share, or SLURM has shared them out already
    if len(gpus) % processes:
        raise InputError(
            f"SLURM_GPUS_ON_NODE={on_node}: the GPUs of a machine cannot be shared out evenly "
            f"among its {processes} tasks; choose an --ntasks-per-node that divides them"
        )
    count = len(gpus) // processes
    tf.config.set_visible_devices(gpus[local_rank * count : (local_rank + 1) * count], "GPU")


def _sum_over(
    strategy: tf.distribute.Strategy, workers: int
) -> Callable[[list[float]], list[float]]:
    """Make the sum over all workers, in float32, which every device can add."""
    per_worker = strategy.num_replicas_in_sync // workers

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def total(values):
        def of_replica():
            # Once for each worker, however many replicas it has.
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return values * tf.cast(replica % per_worker == 0, tf.float32)

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(of_replica), axis=None)

    return lambda values: total(tf.constant(values)).numpy().tolist()


def meet(cluster: Cluster) -> None:
    """Return when all workers of a cluster have arrived, before TensorFlow starts.

    TensorFlow's coordination service waits for an hour, silently and ignoring Ctrl-C, and names
    neither a worker that is missing nor one with another cluster. Here the chief waits for a line
    from each of the others, and answers all of them when all have arrived.

    Raises:
        InputError: If this worker's port is taken, or the workers' clusters differ.
        WorkerLost: If some worker has not arrived in time.
    """
    early_failures.has_met.set()
    if len(cluster.addresses) == 1:
        return
    greeting = {"index": cluster.index, "cluster": list(cluster.addresses)}
    with _own_port(cluster) as server:
        if cluster.index == 0:
            _receive(server, cluster, greeting)
            return
    _report(cluster, greeting)


def _own_port(cluster: Cluster) -> socket.socket:
    address = cluster.addresses[cluster.index]
    both = socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            ("", int(address.rsplit(":", 1)[1])),
            family=socket.AF_INET6 if both else socket.AF_INET,
            dualstack_ipv6=both,
            backlog=len(cluster.addresses),
        )
    except OSError as error:
        raise InputError(
            f"`strategy`=multi_worker: {address}, the address of worker {cluster.index}, cannot be "
            f"used ({os.strerror(error.errno or 0)}); is another run still using it?"
        ) from None


class _Patience:
    """Reports after a while which workers are missing, and finally gives up."""

    def __init__(self, cluster: Cluster):
        self._who = f"worker {cluster.index} of {len(cluster.addresses)}"
        self._addresses = cluster.addresses
        self._start, self._noted = time.monotonic(), False

    def check(self, missing: list[int], reason: str = "") -> None:
        """Raise WorkerLost when a worker has waited too long."""
        seconds = time.monotonic() - self._start
        names = ", ".join(f"worker {number} ({self._addresses[number]})" for number in missing)
        why = f" ({reason})" if reason else ""
        if seconds > WAIT_SECONDS:
            raise WorkerLost(
                f"{self._who}: {names} has not arrived in {WAIT_SECONDS:.0f} seconds{why}; start "
                "all workers at about the same time, with the same TF_CONFIG except for task.index"
            )
        if seconds > NOTE_SECONDS and not self._noted:
            self._noted = True
            _logger.warning("%s: waiting for %s%s", self._who, names, why)


def _receive(server: socket.socket, cluster: Cluster, own: dict) -> None:
    arrived: dict[int, socket.socket] = {}
    patience = _Patience(cluster)
    server.settimeout(0.2)
    with contextlib.ExitStack() as stack:
        while len(arrived) < len(cluster.addresses) - 1:
            with contextlib.suppress(TimeoutError):
                connection = stack.enter_context(server.accept()[0])
                greeting = _read(connection)
                if greeting is None or not isinstance(greeting.get("index"), int):
                    connection.close()  # a port scan, or a worker that has already left
                elif difference := _difference(own, greeting):
                    _answer([*arrived.values(), connection], difference)
                    raise InputError(difference)
                else:
                    arrived[greeting["index"]] = connection
            arrived = {number: each for number, each in arrived.items() if not _has_left(each)}
            others = range(1, len(cluster.addresses))
            patience.check([number for number in others if number not in arrived])
        _answer(list(arrived.values()), "")


def _report(cluster: Cluster, greeting: dict) -> None:
    """Send a line to the chief and wait until it answers."""
    host, port = cluster.addresses[0].rsplit(":", 1)
    patience, reason = _Patience(cluster), ""
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS) as chief:
                chief.sendall(json.dumps(greeting).encode() + b"\n")
                while (answer := _read(chief)) is None and not _has_left(chief):
                    patience.check([0], "it waits for others")
        except OSError as error:
            answer, reason = None, error.strerror or str(error)
        if answer is not None and "error" in answer:
            if answer["error"]:
                raise InputError(answer["error"])
            return
        patience.check([0], reason)
        time.sleep(0.2)


def _difference(own: dict, other: dict) -> str:
    """Return how a worker differs from the chief; empty if it does not."""
    if own["cluster"] != other.get("cluster") or not 0 < other["index"] < len(own["cluster"]):
        return (
            f"TF_CONFIG: worker {other['index']} has the cluster {other.get('cluster')}, worker 0 "
            f"{own['cluster']}; all need the same list in the same order"
        )
    return ""


def _answer(connections: list[socket.socket], error: str) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps({"error": error}).encode() + b"\n")
    for connection in connections:
        # The side that closes first keeps the port busy for a while; the chief needs it at once.
        connection.settimeout(_ANSWER_SECONDS)
        with contextlib.suppress(OSError):
            connection.recv(1)


def _read(connection: socket.socket) -> dict | None:
    """Return a JSON object in a line; None if none arrives in time."""
    connection.settimeout(_ANSWER_SECONDS)
    line = b""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        while not line.endswith(b"\n") and len(line) < _LINE_BYTES:
            if not (more := connection.recv(65536)):
                return None
            line += more
        value = json.loads(line)
        return value if isinstance(value, dict) else None
    return None


def _has_left(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection that has nothing left to read."""
    if connection.fileno() < 0:
        return True
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
