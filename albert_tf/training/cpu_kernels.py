"""Pointwise chains for TensorFlow on a CPU, each compiled by XLA into one pass over memory.

Products stay with oneDNN, which is faster at them than XLA on a CPU. Everything inside is float32.
"""

from __future__ import annotations

import math

import tensorflow as tf

from albert_tf.modeling.kernels import Kernels

# tanh-GELU is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


@tf.custom_gradient
def _gelu(x):
    return _gelu_forward(x), lambda upstream: _gelu_backward(x, upstream)


@tf.function(jit_compile=True)
def _gelu_forward(x):
    wide = tf.cast(x, tf.float32)
    gate = tf.sigmoid(wide * (_LINEAR + _CUBIC * wide * wide))
    return tf.cast(wide * gate, x.dtype)


@tf.function(jit_compile=True)
def _gelu_backward(x, upstream):
    wide = tf.cast(x, tf.float32)
    gate = tf.sigmoid(wide * (_LINEAR + _CUBIC * wide * wide))
    slope = gate + wide * gate * (1 - gate) * (_LINEAR + 3 * _CUBIC * wide * wide)
    return tf.cast(tf.cast(upstream, tf.float32) * slope, x.dtype)


def _cross_entropy(logits, labels):
    flat = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(_flat_cross_entropy(flat, tf.reshape(labels, [-1])), tf.shape(labels))


@tf.custom_gradient
def _flat_cross_entropy(logits, labels):
    losses, log_normaliser = _cross_entropy_forward(logits, labels)

    def gradient(upstream):
        return _cross_entropy_backward(logits, labels, log_normaliser, upstream), None

    return losses, gradient


def _is_label(logits, labels):
    return tf.range(logits.shape[-1], dtype=labels.dtype)[None, :] == labels[:, None]


@tf.function(jit_compile=True)
def _cross_entropy_forward(logits, labels):
    log_normaliser = tf.reduce_logsumexp(logits, axis=-1)
    chosen = tf.reduce_sum(tf.where(_is_label(logits, labels), logits, 0.0), axis=-1)
    return log_normaliser - chosen, log_normaliser


@tf.function(jit_compile=True)
def _cross_entropy_backward(logits, labels, log_normaliser, upstream):
    probabilities = tf.exp(logits - log_normaliser[:, None])
    labels_one_hot = tf.cast(_is_label(logits, labels), tf.float32)
    return (probabilities - labels_one_hot) * upstream[:, None]


CPU_KERNELS = Kernels(gelu=_gelu, cross_entropy=_cross_entropy)
