"""TensorFlow's matrix product: how fast this machine multiplies, independent of any model."""

import tensorflow as tf

from benchmarks.implementations.workload import Workload


def prepare(workload: Workload):
    """Return a function that multiplies a number of times, in the precision of the workload."""
    rows, inner, columns = workload.config["shape"]
    left, right = (
        tf.cast(tf.random.stateless_normal(shape, (1, 2)), workload.dtype)
        for shape in ((rows, inner), (inner, columns))
    )

    def multiply(count: int) -> None:
        for _ in range(count):
            product = tf.linalg.matmul(left, right)
        product[0, 0].numpy()

    return multiply
