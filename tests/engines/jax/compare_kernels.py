"""Compares the JAX engine's kernels with the plain ones, on Keras's JAX backend.

    KERAS_BACKEND=jax python -m tests.engines.jax.compare_kernels

Prints a JSON object of `float32`, `bfloat16` and `dropout`. For every operation, the largest
relative errors of its output and of each of its gradients, of the engine's operation and of the
plain one in this dtype, measured against the plain one in float32. Dropout: what its masks look
like.
"""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np

from albert_tf.engines.jax import tpu_feed_forward
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.modeling.kernels import PLAIN_KERNELS

JAX_KERNELS = dataclasses.replace(
    create_kernels("plain", "cpu"),
    gelu=create_kernels("plain", "gpu").gelu,
    feed_forward=functools.partial(tpu_feed_forward.feed_forward, interpret=True),
)
LABELS = np.array([[0, 6, 2], [1, 1, 5]])
# Name -> shapes of the tensors, and further arguments.
CASES = {
    "add_norm": ([(2, 5, 8), (8,), (2, 5, 8), (8,), (8,)], (1e-3,)),
    "project_heads": ([(2, 5, 8), (8, 12), (12,)], (3,)),
    "merge_heads": ([(2, 3, 5, 4), (12, 7)], ()),
    # Two blocks of tokens, whose gradients of the matrices add up, and as many tokens as the
    # second matrix has rows.
    "feed_forward": ([(2, 512, 128), (128, 1024), (1024,), (1024, 128)], ()),
    "gelu": ([(2, 5, 8), (8,)], ()),
    "score": ([(2, 3, 7)], (LABELS,)),
}


def output_and_gradients(function, tensors, further):
    def first_output(*each):
        outputs = function(*each, *further)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    @jax.jit
    def results(*each):
        output, pullback = jax.vjp(first_output, *each)
        upstream = np.random.default_rng(1).normal(size=output.shape)
        return [output, *pullback(jnp.asarray(upstream, output.dtype))]

    return [np.asarray(result, np.float32) for result in results(*tensors)]


def compare(name: str, dtype: str) -> dict[str, list[float]]:
    shapes, further = CASES[name]
    generator = np.random.default_rng(0)
    wide = [jnp.asarray(generator.normal(size=shape), jnp.float32) for shape in shapes]
    narrow = [tensor.astype("float32" if name == "score" else dtype) for tensor in wide]
    expected = output_and_gradients(getattr(PLAIN_KERNELS, name), wide, further)

    def errors(kernels):
        results = output_and_gradients(getattr(kernels, name), narrow, further)
        return [
            float(np.linalg.norm(result - value) / np.linalg.norm(value))
            for result, value in zip(results, expected, strict=True)
        ]

    return {"engine": errors(JAX_KERNELS), "plain": errors(PLAIN_KERNELS)}


def dropout_masks(dtype: str, rate: float = 0.1) -> dict[str, float]:
    """Share of elements that masks of neighboring seeds drop, and the value of the others."""
    ones = jnp.ones((8, 1000, 64), dtype)

    @jax.jit
    def results(seed):
        output, pullback = jax.vjp(lambda x: JAX_KERNELS.dropout(x, rate, seed), ones)
        return output, *pullback(ones)

    def output_and_gradient(*seed: int):
        return [np.asarray(each, np.float32) for each in results(jnp.asarray(seed, jnp.uint32))]

    first, gradient = output_and_gradient(5, 7)
    again, _ = output_and_gradient(5, 7)
    next_site, _ = output_and_gradient(5, 8)
    next_step, _ = output_and_gradient(6, 7)
    return {
        "dropped": float(np.mean(first == 0)),
        "kept": float(first.max()),
        "again": bool((again == first).all()),
        "gradient": bool((gradient == first).all()),
        "next site": float(np.mean((first == 0) & (next_site == 0))),
        "next step": float(np.mean((first == 0) & (next_step == 0))),
    }


if __name__ == "__main__":
    errors = {
        dtype: {name: compare(name, dtype) for name in CASES} for dtype in ("float32", "bfloat16")
    }
    print(json.dumps({**errors, "dropout": dropout_masks("float32")}))
