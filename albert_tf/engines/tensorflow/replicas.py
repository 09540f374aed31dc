"""Whether all replicas have the same weights, to the bit.

Each replica applies the same update to the same all-reduced gradients on its own, so nothing else
would notice one that drifts.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.engines.workers import Workers, compare_replicas


def gather_in_order(strategy: tf.distribute.Strategy, value) -> tf.Tensor:
    """The replicas' values, in the order of their numbers; inside a `tf.function`.

    `gather` alone follows the links between GPUs, and sorts worker 10 before worker 2.

    Args:
        strategy: of the replicas.
        value: `[rows, ...]` of each replica, as `strategy.run` returns it.

    Returns:
        `[replicas * rows, ...]`.
    """
    if strategy.num_replicas_in_sync == 1:
        return strategy.gather(value, axis=0)

    def own_number():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.reshape(tf.cast(replica, tf.float32), [1])  # every device sends float32

    numbers = strategy.gather(strategy.run(own_number), axis=0)
    gathered = strategy.gather(value, axis=0)
    of_row = tf.shape(gathered)[1:]
    shape = tf.concat([[strategy.num_replicas_in_sync, -1], of_row], axis=0)
    parts = tf.gather(tf.reshape(gathered, shape), tf.argsort(numbers))
    return tf.reshape(parts, tf.concat([[-1], of_row], axis=0))


def checksums(strategy: tf.distribute.Strategy, variables: Sequence[keras.Variable]) -> np.ndarray:
    """Sums of the bits of variables.

    Args:
        strategy: under which they were created.
        variables: float32 or int32.

    Returns:
        int64 `[replicas, variables]`, the replicas of all workers in order.
    """

    def of_replica():
        sums = [
            tf.reduce_sum(tf.cast(tf.bitcast(variable.value, tf.int32), tf.int64))
            for variable in variables
        ]
        return tf.stack(sums)[tf.newaxis]

    @tf.function
    def of_all():
        return gather_in_order(strategy, strategy.run(of_replica))

    return of_all().numpy()


def check_replicas(
    strategy: tf.distribute.Strategy,
    variables: Sequence[keras.Variable],
    step: int,
    workers: Workers,
) -> None:
    """Compares the variables of all replicas with those of the first.

    Args:
        strategy, variables: as for `checksums`.
        step: number of updates made so far.
        workers: the processes that the replicas belong to.

    Raises:
        InputError: a replica has other values.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    names = [variable.path for variable in variables]
    compare_replicas(names, checksums(strategy, variables), step, workers, "TensorFlow")
