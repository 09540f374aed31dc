"""TensorFlow's sparse gradients, which the other backends do not have."""

import numpy as np
import tensorflow as tf

from albert_tf.optimization.optimizers import Lamb
from tests.support.backends import variable


def test_repeated_rows_of_a_sparse_gradient_are_added_up_first():
    value = np.ones((4, 2), "float32")
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([2, 2]), (4, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        weight = variable("embedding", value)
        Lamb(0.1).apply([gradient], [weight])
        results.append(weight.numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
