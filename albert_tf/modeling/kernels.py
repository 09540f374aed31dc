"""Kernels: operations of the model that an engine may replace by fused ones.

XLA (TPU, JAX) fuses most of the plain kernels by itself. TensorFlow on a CPU does not, and spends
as long on them as on the matrix products, so its training step passes fused kernels
(`albert_tf/engines/tensorflow/cpu_kernels.py`). Everything else, exports included, uses
`PLAIN_KERNELS`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.modeling.attention import ATTENTION


@dataclasses.dataclass(frozen=True)
class Kernels:
    """One implementation of each kernel.

    Attributes:
        gelu: `gelu(x, bias)`, the tanh-approximated GELU of `x + bias`. `x` is `[..., width]`,
            `bias` `[width]`; the result has the shape and dtype of `x`.
        feed_forward: `feed_forward(hidden, kernel, bias, output_kernel)`, the matrix product of
            `gelu(hidden @ kernel, bias)` and `output_kernel` `[inner, outputs]`; `hidden` is
            `[..., width]`, `kernel` `[width, inner]`, `bias` `[inner]`: `[..., outputs]`.
        add_norm: `add_norm(x, bias, residual, scale, offset, epsilon)`, layer normalization of
            `x + bias + residual` over the last axis, times `scale`, plus `offset`. `x` and
            `residual` are `[..., width]`, the others `[width]`; the number `epsilon` is added to
            the variance. The result has the dtype of `x`.
        attention: the table `albert_tf.modeling.attention.ATTENTION`; an engine may replace rows.
        project_heads: `project_heads(hidden, kernel, bias, heads)`, the product of `hidden`
            `[batch, seq, inputs]` and `kernel` `[inputs, width]` plus `bias` `[width]`, split into
            `heads` parts: `[batch, heads, seq, width / heads]`.
        merge_heads: `merge_heads(context, kernel)`, the product of the concatenated heads
            `context` `[batch, heads, seq, head_size]` and `kernel` `[heads * head_size, outputs]`:
            `[batch, seq, outputs]`.
        vocabulary_logits: `vocabulary_logits(hidden, table, bias)`, the product of `hidden`
            `[..., width]` and the transposed `table` `[vocab, width]` plus `bias` `[vocab]`:
            `[..., vocab]`, float32.
        score: `score(logits, labels)`, the cross-entropy of integer labels `[...]` under float32
            logits `[..., classes]` or those of `vocabulary_logits`, and 1 where the label has the
            largest logit, else 0; both `[...]`, float32. Which of equal logits counts as the
            largest is up to the kernel.
        dropout: `dropout(inputs, rate, seed)` drops elements of `inputs` with probability `rate`
            in (0, 1) and scales up the others. The mask is a function of `seed` `[2]`.
    """

    gelu: Callable
    feed_forward: Callable
    add_norm: Callable
    attention: Mapping[str, Callable]
    project_heads: Callable
    merge_heads: Callable
    vocabulary_logits: Callable
    score: Callable
    dropout: Callable


@dataclasses.dataclass(frozen=True)
class WeightDropout:
    """Drops elements of a layer's attention weights: the same ones at every call.

    A fused attention draws a mask of its own, by `rate` in (0, 1) and `seed`, integers `[2]`.
    """

    rate: float
    seed: Any
    kernels: Kernels

    def __call__(self, weights):
        return self.kernels.dropout(weights, self.rate, self.seed)


class _DrawnSeed(keras.random.SeedGenerator):
    """Passes a seed tensor that is already drawn to `keras.random`, which takes generators only."""

    def __init__(self, seed):
        self._seed = seed

    def next(self, ordered=True):
        return self._seed


def _dropout(inputs, rate, seed):
    return keras.random.dropout(inputs, rate, seed=_DrawnSeed(seed))


def _gelu(x, bias):
    return ops.gelu(x + bias, approximate=True)


def _feed_forward(hidden, kernel, bias, output_kernel):
    return ops.matmul(_gelu(ops.matmul(hidden, kernel), bias), output_kernel)


def _add_norm(x, bias, residual, scale, offset, epsilon):
    # Moments are float32 under bfloat16, too.
    total = ops.cast(x + bias + residual, "float32")
    mean, variance = ops.moments(total, axes=-1, keepdims=True)
    normal = (total - mean) * ops.rsqrt(variance + epsilon)
    return ops.cast(normal * ops.cast(scale, "float32") + ops.cast(offset, "float32"), x.dtype)


def _project_heads(hidden, kernel, bias, heads):
    # A dense layer would do the same in other operations on TensorFlow (BiasAdd), whose results
    # differ in the last bit from those of earlier versions.
    projected = ops.matmul(hidden, kernel) + bias
    batch, length = ops.shape(projected)[:2]
    head_size = projected.shape[-1] // heads
    return ops.transpose(ops.reshape(projected, (batch, length, heads, head_size)), (0, 2, 1, 3))


def _merge_heads(context, kernel):
    context = ops.transpose(context, (0, 2, 1, 3))
    batch, length = ops.shape(context)[:2]
    return ops.matmul(ops.reshape(context, (batch, length, kernel.shape[0])), kernel)


def _vocabulary_logits(hidden, table, bias):
    logits = ops.matmul(hidden, ops.transpose(table))
    return ops.cast(logits, "float32") + ops.cast(bias, "float32")


def _score(logits, labels):
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return losses, is_correct(logits, labels)


def is_correct(logits, labels):
    """Return 1 where the label is the first of the largest logits, else 0; float32."""
    predictions = ops.cast(ops.argmax(logits, axis=-1), labels.dtype)
    return ops.cast(ops.equal(predictions, labels), "float32")


PLAIN_KERNELS = Kernels(
    gelu=_gelu,
    feed_forward=_feed_forward,
    add_norm=_add_norm,
    attention=ATTENTION,
    project_heads=_project_heads,
    merge_heads=_merge_heads,
    vocabulary_logits=_vocabulary_logits,
    score=_score,
    dropout=_dropout,
)


class Execution:
    """How an engine executes a forward pass, without changing its results.

    Models take it as an argument of the call, and use `PLAIN` without one. This class executes
    layers one after the other; engines that do more, such as tracing a shared layer once, override
    `layer_calls`.

    Args:
        kernels: plain or fused kernels, for the layers and heads.
        remat: whether the backward pass computes layers a second time instead of keeping their
            activations in memory (arXiv 1604.06174). Dropout drops the same elements both times.
    """

    def __init__(self, kernels: Kernels = PLAIN_KERNELS, remat: bool = False):
        self.kernels = kernels
        self.remat = remat

    def layer_calls(self, layers: Sequence[keras.layers.Layer]) -> list[Callable]:
        """Prepare the transformer layers for one forward pass, in the order and number of uses.

        Returns:
            One function per use, called as `layer(hidden, attention_mask, **options)`.
        """
        calls: list[Callable] = [functools.partial(layer, kernels=self.kernels) for layer in layers]
        return [rematerialize(call) for call in calls] if self.remat else calls


PLAIN = Execution()


def rematerialize(call: Callable) -> Callable:
    """Wrap a layer's call so that the backward pass computes it a second time.

    Args:
        call: `call(hidden, attention_mask, *weights, **options)`. Gradients flow to `hidden`, to
            the `weights` that are passed as tensors, and to the variables that the layer reads. The
            call must change no variable and draw random numbers only from a seed in its options.
    """

    def rematerialized(hidden, attention_mask, *weights, **options):
        def of_tensors(hidden, *weights):
            return call(hidden, attention_mask, *weights, **options)

        return keras.remat(of_tensors)(hidden, *weights)

    return rematerialized
