"""Chains of pointwise operations that a training engine may compute in one pass over memory.

The plain forms are what XLA (TPU, JAX) fuses by itself. TensorFlow on a CPU does not, and spends as
long on them as on the matrix products; its training step puts fused forms in their place with
`using`. Exports and everything else keep the plain forms.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

from keras import ops

from albert_tf.config import LAYER_NORM_EPSILON


class Kernels(NamedTuple):
    """One implementation of each chain.

    Attributes:
        gelu: tanh-approximated GELU of `x + bias`, `[..., width]` and `[width]`, in x's dtype.
        gelu_product: the same times a matrix `[width, outputs]`: `[..., outputs]`.
        add_norm: layer normalisation over the last axis of `x + bias + residual`, times `scale`
            plus `offset`: tensors `[..., width]` and vectors `[width]`, in x's dtype.
        attention: the mean of `value` `[batch, heads, seq, size]`, weighted for each of `query`
            `[batch, heads, queries, size]` by `drop` of the softmax of its products with `key`,
            shaped like `value`, times `scale` plus `mask_scores`, float32 `[batch, 1, 1, seq]`.
            `drop` multiplies element by element, by the same whenever it is called.
        cross_entropy: negative log-likelihood `[...]`, float32, of integer labels `[...]` under
            float32 logits `[..., classes]`.
        copies: a weight as often as layers use it, so that their gradients are added up in one
            pass.
    """

    gelu: Callable
    gelu_product: Callable
    add_norm: Callable
    attention: Callable
    cross_entropy: Callable
    copies: Callable


def _add_norm(x, bias, residual, scale, offset):
    # Moments are float32 under bfloat16, too.
    total = ops.cast(x + bias + residual, "float32")
    mean, variance = ops.moments(total, axes=-1, keepdims=True)
    normal = (total - mean) * ops.rsqrt(variance + LAYER_NORM_EPSILON)
    return ops.cast(normal * ops.cast(scale, "float32") + ops.cast(offset, "float32"), x.dtype)


def _attention(query, key, value, mask_scores, scale, drop):
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
    # The softmax is float32 under bfloat16, too.
    weights = ops.softmax(ops.cast(scores, "float32") * scale + mask_scores)
    return ops.matmul(drop(ops.cast(weights, scores.dtype)), value)


def _gelu(x, bias):
    return ops.gelu(x + bias, approximate=True)


PLAIN = Kernels(
    gelu=_gelu,
    gelu_product=lambda x, bias, kernel: ops.matmul(_gelu(x, bias), kernel),
    add_norm=_add_norm,
    attention=_attention,
    cross_entropy=lambda logits, labels: ops.sparse_categorical_crossentropy(
        labels, logits, from_logits=True
    ),
    copies=lambda weight, count: [weight] * count,
)

_active: contextvars.ContextVar[Kernels] = contextvars.ContextVar("kernels", default=PLAIN)


@contextlib.contextmanager
def using(kernels: Kernels) -> Iterator[None]:
    """Computes with `kernels` what is traced or called inside the block."""
    token = _active.set(kernels)
    try:
        yield
    finally:
        _active.reset(token)


def gelu(x, bias):
    """`Kernels.gelu` of those in place; so are the others."""
    return _active.get().gelu(x, bias)


def gelu_product(x, bias, kernel):
    return _active.get().gelu_product(x, bias, kernel)


def add_norm(x, bias, residual, scale, offset):
    return _active.get().add_norm(x, bias, residual, scale, offset)


def attention(query, key, value, mask_scores, scale: float, drop: Callable):
    return _active.get().attention(query, key, value, mask_scores, scale, drop)


def cross_entropy(logits, labels):
    return _active.get().cross_entropy(logits, labels)


def copies(weight, count: int) -> list:
    return _active.get().copies(weight, count)
