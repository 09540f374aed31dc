"""Workers of TensorFlow's `MultiWorkerMirroredStrategy`: how they join, and how losses show."""

import os
import re
import signal
import threading
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import context

from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.engines.tensorflow.rendezvous import meet
from albert_tf.engines.workers import Board, Workers
from albert_tf.errors import InputError, tensorflow_reason


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
