"""Kernels for TensorFlow on TPU v4 and later: those of the JAX engine, called from TensorFlow.

`jax2tf` writes each of them, and its gradient, as a StableHLO module into the graph, where XLA
compiles it together with everything else. JAX computes nothing itself and leaves the TPU to
TensorFlow. The modules contain kernels in a format that the `libtpu` of TensorFlow has to know,
which the versions of the extra `tpu` see to.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import tensorflow as tf
from jax.experimental import jax2tf

from albert_tf.engines.jax.attention import tpu_attention, tpu_attention_applies
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.modeling.attention import ATTENTION, DEFAULT, ExampleIds, dot_product_attention
from albert_tf.modeling.kernels import PLAIN_KERNELS

jax.config.update("jax_platforms", "cpu")

_JAX_KERNELS = create_kernels("plain", "tpu")

_convert = functools.partial(
    jax2tf.convert,
    native_serialization_platforms=("tpu",),
    # The preflight builds the program of a TPU on a CPU.
    native_serialization_disabled_checks=(jax2tf.DisabledSafetyCheck.platform(),),
)


def _on_tensors(function: Callable) -> Callable:
    """Return a function of JAX arrays as one of tensors and variables."""
    converted = _convert(function)
    return lambda *inputs: converted(*(tf.convert_to_tensor(each) for each in inputs))


def _keeping_residuals(function: Callable, differentiated: int) -> Callable:
    """As `_on_tensors`, for a function whose backward pass would otherwise compute it again.

    XLA removes a second computation of what it knows, but not a second call of a custom kernel.
    Only the first arguments have gradients, as many as `differentiated`.
    """
    pullback_tree = None

    def forward(*inputs):
        nonlocal pullback_tree
        output, pullback = jax.vjp(function, *inputs)
        residuals, pullback_tree = jax.tree.flatten(pullback)
        return output, residuals

    def backward(residuals, upstream):
        return jax.tree.unflatten(pullback_tree, residuals)(upstream)[:differentiated]

    @tf.custom_gradient
    def on_tensors(*inputs):
        output, residuals = _convert(forward, with_gradient=False)(*inputs)

        def gradient(upstream):
            gradients = _convert(backward, with_gradient=False)(residuals, upstream)
            return (*gradients, *[None] * (len(inputs) - differentiated))

        return output, gradient

    return on_tensors


def _add_norm(*inputs):
    *tensors, epsilon = inputs
    return _on_tensors(functools.partial(_JAX_KERNELS.add_norm, epsilon=epsilon))(*tensors)


def _project_heads(hidden, kernel, bias, heads):
    project = functools.partial(_JAX_KERNELS.project_heads, heads=heads)
    return _on_tensors(project)(hidden, kernel, bias)


def _dropout(inputs, rate, seed):
    drop = _on_tensors(lambda inputs, seed: _JAX_KERNELS.dropout(inputs, rate, seed))
    return drop(inputs, tf.cast(seed, tf.uint32))


def _attention(query, key, value, attention_mask, dropout=None):
    if not tpu_attention_applies(query.shape, key.shape, dropout):
        return dot_product_attention(query, key, value, attention_mask, dropout)
    ids = attention_mask if isinstance(attention_mask, ExampleIds) else (attention_mask,)
    seeds = () if dropout is None else (tf.cast(dropout.seed, tf.uint32),)

    def attend(query, key, value, *others):
        mask = ExampleIds(*others[:2]) if len(ids) == 2 else others[0]
        drawn = dataclasses.replace(dropout, seed=others[-1]) if seeds else None
        return tpu_attention(query, key, value, mask, drawn)

    return _keeping_residuals(attend, 3)(query, key, value, *ids, *seeds)


TPU_KERNELS = dataclasses.replace(
    PLAIN_KERNELS,
    add_norm=_add_norm,
    attention={**ATTENTION, DEFAULT: _attention},
    project_heads=_project_heads,
    merge_heads=_on_tensors(_JAX_KERNELS.merge_heads),
    score=_on_tensors(_JAX_KERNELS.score),
    dropout=_dropout,
)
