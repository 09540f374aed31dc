"""The fused kernels compute what the plain ones do, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import kernels
from albert_tf.training.cpu_kernels import CPU_KERNELS


def value_and_gradient(function, x):
    """The function's value, and the gradient of a sum that weighs every element differently."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        weights = tf.reshape(tf.linspace(-1.0, 1.0, tf.size(y)), tf.shape(y))
        total = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
    return y, tape.gradient(total, x)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("bfloat16", 2e-2)])
def test_gelu(dtype, tolerance):
    x = tf.cast(tf.reshape(tf.linspace(-12.0, 12.0, 960), [8, 10, 12]), dtype)
    fused = value_and_gradient(CPU_KERNELS.gelu, x)
    exact = value_and_gradient(kernels.PLAIN.gelu, tf.cast(x, tf.float32))
    for one, other in zip(fused, exact, strict=True):
        assert one.dtype == x.dtype
        np.testing.assert_allclose(tf.cast(one, tf.float32), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_cross_entropy(shape):
    draw = np.random.default_rng(0)
    logits = tf.constant(draw.normal(scale=8, size=(*shape, 50)), tf.float32)
    labels = tf.constant(draw.integers(0, 50, shape), tf.int32)
    fused = value_and_gradient(lambda x: CPU_KERNELS.cross_entropy(x, labels), logits)
    plain = value_and_gradient(lambda x: kernels.PLAIN.cross_entropy(x, labels), logits)
    for one, other in zip(fused, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_kernels_are_in_place_inside_the_block_only():
    other = kernels.Kernels(gelu=lambda x: "other", cross_entropy=None)
    with kernels.using(other):
        assert kernels.gelu(1.0) == "other"
    assert float(kernels.gelu(1.0)) == pytest.approx(0.841192, abs=1e-6)
