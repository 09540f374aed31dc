"""Pointwise chains for TensorFlow on a CPU, each compiled by XLA into one pass over memory.

Products stay with oneDNN, which is faster at them than XLA on a CPU. Everything inside is float32.

TensorFlow may run a chain for several replicas at the same time. None may therefore reduce many
elements by `tf.reduce_max` or `tf.reduce_sum`: XLA in TensorFlow 2.21 hands these to YNNPACK, and
a compiled function with such a call that two threads first run at once corrupts memory (both
append to the constants of `YnnFusionThunk`).
"""

from __future__ import annotations

import math

import tensorflow as tf

from albert_tf.config import LAYER_NORM_EPSILON
from albert_tf.modeling.kernels import Kernels

# tanh-GELU is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


def _wide(*tensors):
    return [tf.cast(tensor, tf.float32) for tensor in tensors]


def _row_sums(x):
    """Sums over the last axis, which stays with length 1.

    As a product: XLA on a CPU makes slow windows of sums over many elements.
    """
    return tf.linalg.matvec(x, tf.ones(tf.shape(x)[-1:]))[..., None]


def _row_maxima(x):
    """Maxima over the last axis, which stays with length 1."""
    length = x.shape[-1]
    # 31 for any length: XLA compiles for each, and leaves out halvings of a single element.
    halvings = 31 if length is None else (length - 1).bit_length()
    for _ in range(halvings):
        length = x.shape[-1] or tf.shape(x)[-1]
        half = (length + 1) // 2  # halves of an odd length share an element
        x = tf.maximum(x[..., :half], x[..., length - half :])
    return x


def _row_means(x):
    return _row_sums(x) / tf.cast(tf.shape(x)[-1], tf.float32)


def _column_sums(x, dtype):
    """Sums over all axes but the last, by oneDNN, which adds up in float32."""
    rows = _rows(x)
    return tf.cast(tf.matmul(tf.ones([1, tf.shape(rows)[0]], x.dtype), rows)[0], dtype)


def _sigmoid(x):
    # XLA's tanh is faster than its exponential function.
    return 0.5 + 0.5 * tf.tanh(0.5 * x)


def _of_tensors(function):
    """With tensors where variables are given, of which a custom gradient knows nothing."""

    def call(*inputs):
        return function(*(tf.convert_to_tensor(each) for each in inputs))

    return call


@_of_tensors
@tf.custom_gradient
def _gelu(x, bias):
    def gradient(upstream):
        total = _gelu_backward(x, bias, upstream)
        return total, _column_sums(total, bias.dtype)

    return _gelu_forward(x, bias), gradient


@tf.function(jit_compile=True)
def _gelu_forward(x, bias):
    total = tf.add(*_wide(x, bias))
    return tf.cast(total * _sigmoid(total * (_LINEAR + _CUBIC * total * total)), x.dtype)


@tf.function(jit_compile=True)
def _gelu_backward(x, bias, upstream):
    return _gelu_backward_and_again(x, bias, upstream)[0]


@tf.function(jit_compile=True)
def _gelu_backward_and_again(x, bias, upstream):
    """The gradient, and the outputs once more."""
    total = tf.add(*_wide(x, bias))
    gate = _sigmoid(total * (_LINEAR + _CUBIC * total * total))
    slope = gate + total * gate * (1 - gate) * (_LINEAR + 3 * _CUBIC * total * total)
    gradient = tf.cast(upstream, tf.float32) * slope
    return tf.cast(gradient, x.dtype), tf.cast(total * gate, x.dtype)


@_of_tensors
@tf.custom_gradient
def _gelu_product(x, bias, kernel):
    # Of all that a layer computes GELU's output is the largest; it is not kept but computed again.
    def gradient(upstream):
        of_gelu = _product(upstream, kernel, transpose_b=True)
        total, outputs = _gelu_backward_and_again(x, bias, of_gelu)
        of_kernel = tf.matmul(_rows(outputs), _rows(upstream), transpose_a=True)
        return total, _column_sums(total, bias.dtype), of_kernel

    return _product(_gelu_forward(x, bias), kernel), gradient


def _rows(x):
    return tf.reshape(x, [-1, x.shape[-1]])


def _product(x, kernel, transpose_b=False):
    """Of `[..., width]` with a matrix, as one of rows."""
    product = tf.matmul(_rows(x), kernel, transpose_b=transpose_b)
    return tf.reshape(product, tf.concat([tf.shape(x)[:-1], tf.shape(product)[-1:]], axis=0))


@_of_tensors
@tf.custom_gradient
def _add_norm(x, bias, residual, scale, offset):
    outputs, normal, inverse = _add_norm_forward(x, bias, residual, scale, offset)

    def gradient(upstream):
        total, of_scale = _add_norm_backward(normal, inverse, scale, upstream)
        return (
            total,
            _column_sums(total, bias.dtype),
            total,
            _column_sums(of_scale, scale.dtype),
            _column_sums(upstream, offset.dtype),
        )

    return outputs, gradient


@tf.function(jit_compile=True)
def _add_norm_forward(x, bias, residual, scale, offset):
    """The outputs, and for the gradient what was normalised and one over its deviation before."""
    dtype = x.dtype
    x, bias, residual, scale, offset = _wide(x, bias, residual, scale, offset)
    total = x + bias + residual
    centred = total - _row_means(total)
    inverse = tf.math.rsqrt(_row_means(centred * centred) + LAYER_NORM_EPSILON)
    normal = centred * inverse
    return tf.cast(normal * scale + offset, dtype), tf.cast(normal, dtype), inverse


@tf.function(jit_compile=True)
def _add_norm_backward(normal, inverse, scale, upstream):
    """Gradient of the sum that is normalised, and the terms of that of the scale."""
    dtype = normal.dtype
    normal, scale, upstream = _wide(normal, scale, upstream)
    of_normal = upstream * scale
    along = _row_means(of_normal * normal)
    total = (of_normal - _row_means(of_normal) - normal * along) * inverse
    return tf.cast(total, dtype), tf.cast(upstream * normal, dtype)


def _attention(query, key, value, mask_scores, scale, drop):
    # The weights are as many as the square of the length. They are not kept but computed again.
    def weights_of(query):
        return _softmax_forward(tf.matmul(query, key, transpose_b=True), mask_scores, scale)

    @tf.custom_gradient
    def context_of(query, key, value):
        def gradient(upstream):
            # Not before they are asked for, nor taken for those of the forward pass.
            with tf.control_dependencies([upstream]):
                weights = weights_of(tf.identity(query))
            of_value = tf.matmul(drop(weights), upstream, transpose_a=True)
            # What multiplies element by element does the same to gradients.
            of_weights = drop(tf.matmul(upstream, value, transpose_b=True))
            of_scores = _softmax_backward(weights, scale, of_weights)
            of_key = tf.matmul(of_scores, query, transpose_a=True)
            return tf.matmul(of_scores, key), of_key, of_value

        return tf.matmul(drop(weights_of(query)), value), gradient

    return context_of(query, key, value)


@tf.function(jit_compile=True)
def _softmax_forward(scores, mask_scores, scale):
    total = tf.cast(scores, tf.float32) * scale + mask_scores
    powers = tf.exp(total - _row_maxima(total))
    return tf.cast(powers / _row_sums(powers), scores.dtype)


@tf.function(jit_compile=True)
def _softmax_backward(weights, scale, upstream):
    dtype = weights.dtype
    weights, upstream = _wide(weights, upstream)
    along = _row_sums(weights * upstream)
    return tf.cast(weights * (upstream - along) * scale, dtype)


# Gradients of so many uses of a weight are held at once.
_HELD = 3


def _copies(weight, count):
    """In groups: the gradients of a group are added to the sum of those of the groups after it."""
    if count == 1:
        return [weight]
    fixed, rest = tf.stop_gradient(weight), tf.cast(weight, tf.float32)
    copies = []
    while len(copies) < count - _HELD:
        *group, rest = _group(fixed, rest, _HELD)
        copies += group
    return [*copies, *_group(fixed, rest, count - len(copies), is_last=True)]


def _group(weight, rest, count, is_last=False):
    """`count` copies of a weight, and what stands for the others, if there are others.

    The gradients of all are that of `rest`, in float32.
    """

    @tf.custom_gradient
    def group_of(rest):
        copies = [tf.identity(weight) for _ in range(count)]
        return copies if is_last else [*copies, tf.identity(rest)], lambda *upstream: _sum(upstream)

    return group_of(rest)


@tf.function(jit_compile=True)
def _sum(tensors):
    return tf.add_n(_wide(*tensors))


def _cross_entropy(logits, labels):
    flat = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(_flat_cross_entropy(flat, tf.reshape(labels, [-1])), tf.shape(labels))


@tf.custom_gradient
def _flat_cross_entropy(logits, labels):
    losses, log_normaliser = _cross_entropy_forward(logits, labels)

    def gradient(upstream):
        return _cross_entropy_backward(logits, labels, log_normaliser, upstream), None

    return losses, gradient


@tf.function(jit_compile=True)
def _cross_entropy_forward(logits, labels):
    largest = _row_maxima(logits)
    log_normaliser = (tf.math.log(_row_sums(tf.exp(logits - largest))) + largest)[:, 0]
    return log_normaliser - tf.gather(logits, labels, batch_dims=1), log_normaliser


@tf.function(jit_compile=True)
def _cross_entropy_backward(logits, labels, log_normaliser, upstream):
    probabilities = tf.exp(logits - log_normaliser[:, None])
    is_label = tf.range(logits.shape[-1], dtype=labels.dtype)[None, :] == labels[:, None]
    return (probabilities - tf.cast(is_label, tf.float32)) * upstream[:, None]


CPU_KERNELS = Kernels(
    gelu=_gelu,
    gelu_product=_gelu_product,
    add_norm=_add_norm,
    attention=_attention,
    cross_entropy=_cross_entropy,
    copies=_copies,
)
