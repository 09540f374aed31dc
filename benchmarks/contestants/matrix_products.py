"""TensorFlow's own matrix product: how fast this machine multiplies, whatever the model."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.contestants.workload import Workload
from benchmarks.floors import COLUMNS, INNER, ROWS


def prepare(workload: Workload):
    """A function that multiplies a number of times, in the precision of the workload."""
    left, right = (
        tf.cast(tf.random.stateless_normal(shape, (1, 2)), workload.dtype)
        for shape in ((ROWS, INNER), (INNER, COLUMNS))
    )

    def multiply(count: int) -> None:
        for _ in range(count):
            product = tf.linalg.matmul(left, right)
        product[0, 0].numpy()

    return multiply
