"""Compares the JAX engine's operations with the plain ones, on Keras's JAX backend.

    KERAS_BACKEND=jax python -m tests.engines.jax.compare_ops DTYPE

Prints a JSON object: for every operation, the largest relative errors of its output and of each of
its gradients, of the engine's operation and of the plain one in this dtype, measured against the
plain one in float32.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from albert_tf.engines.jax.ops import create_ops
from albert_tf.modeling.attention import dot_product_attention
from albert_tf.modeling.ops import PLAIN_OPS

JAX_OPS = create_ops(dot_product_attention)
LABELS = np.array([[0, 6, 2], [1, 1, 5]])
# Name -> shapes of the tensors, and further arguments.
CASES = {
    "add_norm": ([(2, 5, 8), (8,), (2, 5, 8), (8,), (8,)], ()),
    "project_heads": ([(2, 5, 8), (8, 12), (12,)], (3,)),
    "merge_heads": ([(2, 3, 5, 4), (12, 7)], ()),
    "cross_entropy": ([(2, 3, 7)], (LABELS,)),
}


def output_and_gradients(function, tensors, further):
    output, pullback = jax.vjp(lambda *each: function(*each, *further), *tensors)
    upstream = np.random.default_rng(1).normal(size=output.shape)
    results = [output, *pullback(jnp.asarray(upstream, output.dtype))]
    return [np.asarray(result, np.float32) for result in results]


def compare(name: str, dtype: str) -> dict[str, list[float]]:
    shapes, further = CASES[name]
    generator = np.random.default_rng(0)
    wide = [jnp.asarray(generator.normal(size=shape), jnp.float32) for shape in shapes]
    narrow = [tensor.astype("float32" if name == "cross_entropy" else dtype) for tensor in wide]
    expected = output_and_gradients(getattr(PLAIN_OPS, name), wide, further)

    def errors(ops):
        results = output_and_gradients(getattr(ops, name), narrow, further)
        return [
            float(np.linalg.norm(result - value) / np.linalg.norm(value))
            for result, value in zip(results, expected, strict=True)
        ]

    return {"engine": errors(JAX_OPS), "plain": errors(PLAIN_OPS)}


if __name__ == "__main__":
    print(json.dumps({name: compare(name, sys.argv[1]) for name in CASES}))
