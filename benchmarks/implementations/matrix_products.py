"""TensorFlow's matrix product: how fast this machine multiplies, independent of any model."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.implementations.workload import Workload
from benchmarks.lower_bounds import COLUMNS, INNER, ROWS


def prepare(workload: Workload):
    """Returns a function that multiplies a number of times, in the precision of the workload."""
    left, right = (
        tf.cast(tf.random.stateless_normal(shape, (1, 2)), workload.dtype)
        for shape in ((ROWS, INNER), (INNER, COLUMNS))
    )

    def multiply(count: int) -> None:
        for _ in range(count):
            product = tf.linalg.matmul(left, right)
        product[0, 0].numpy()

    return multiply
