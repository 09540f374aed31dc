"""Fused kernels for TensorFlow on a CPU, each compiled by XLA into one pass over memory.

Matrix products are left to oneDNN, which is faster at them. All other arithmetic is float32.

TensorFlow may run an operation for several replicas at the same time. For this reason none may
reduce many elements with `tf.reduce_max` or `tf.reduce_sum`: XLA in TensorFlow 2.21 delegates these
to YNNPACK, and a compiled function with such a call corrupts memory if two threads enter it for the
first time at once (both append to the constants of `YnnFusionThunk`).
"""

import dataclasses
import math

import tensorflow as tf
from keras import ops

from albert_tf.modeling.attention import ATTENTION, DEFAULT, mask_scores
from albert_tf.modeling.kernels import PLAIN_KERNELS

# tanh-GELU is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


def _wide(*tensors):
    return [tf.cast(tensor, tf.float32) for tensor in tensors]


def _row_sums(x):
    """Sum over the last axis, which is kept with length 1.

    Computed as a product: XLA on a CPU turns sums over many elements into slow window reductions.
    """
    return tf.linalg.matvec(x, tf.ones(tf.shape(x)[-1:]))[..., None]


def _row_maxima(x):
    """Maxima over the last axis, which is kept with length 1."""
    length = x.shape[-1]
    # 31 suffice for any length; XLA knows the length and removes halvings of a single element.
    halvings = 31 if length is None else (length - 1).bit_length()
    for _ in range(halvings):
        length = x.shape[-1] or tf.shape(x)[-1]
        half = (length + 1) // 2  # the halves of an odd length overlap
        x = tf.maximum(x[..., :half], x[..., length - half :])
    return x


def _row_means(x):
    return _row_sums(x) / tf.cast(tf.shape(x)[-1], tf.float32)


def _column_sums(x, dtype):
    """Sum over all axes but the last, by oneDNN, which accumulates in float32."""
    rows = _rows(x)
    return tf.cast(tf.matmul(tf.ones([1, tf.shape(rows)[0]], x.dtype), rows)[0], dtype)


def _sigmoid(x):
    # XLA's tanh is faster than its exponential function.
    return 0.5 + 0.5 * tf.tanh(0.5 * x)


def _of_tensors(function):
    """Convert variables to tensors, since custom gradients do not see variables."""
    return lambda *inputs: function(*(tf.convert_to_tensor(each) for each in inputs))


@_of_tensors
@tf.custom_gradient
def _gelu(x, bias):
    def gradient(upstream):
        total = _gelu_backward(x, bias, upstream)
        return total, _column_sums(total, bias.dtype)

    return _gelu_forward(x, bias), gradient


@tf.function(autograph=False, jit_compile=True)
def _gelu_forward(x, bias):
    total = tf.add(*_wide(x, bias))
    return tf.cast(total * _sigmoid(total * (_LINEAR + _CUBIC * total * total)), x.dtype)


@tf.function(autograph=False, jit_compile=True)
def _gelu_backward(x, bias, upstream):
    return _gelu_backward_and_outputs(x, bias, upstream)[0]


@tf.function(autograph=False, jit_compile=True)
def _gelu_backward_and_outputs(x, bias, upstream):
    """Return the gradient, and the outputs computed a second time."""
    total = tf.add(*_wide(x, bias))
    gate = _sigmoid(total * (_LINEAR + _CUBIC * total * total))
    slope = gate + total * gate * (1 - gate) * (_LINEAR + 3 * _CUBIC * total * total)
    gradient = tf.cast(upstream, tf.float32) * slope
    return tf.cast(gradient, x.dtype), tf.cast(total * gate, x.dtype)


@_of_tensors
@tf.custom_gradient
def _gelu_product(x, bias, kernel):
    # The output of the GELU is a layer's largest tensor: it is computed again instead of kept.
    def gradient(upstream):
        gelu_gradient = _product(upstream, kernel, transpose_b=True)
        total, outputs = _gelu_backward_and_outputs(x, bias, gelu_gradient)
        kernel_gradient = tf.matmul(_rows(outputs), _rows(upstream), transpose_a=True)
        return total, _column_sums(total, bias.dtype), kernel_gradient

    return _product(_gelu_forward(x, bias), kernel), gradient


def _feed_forward(hidden, kernel, bias, output_kernel):
    return _gelu_product(ops.matmul(hidden, kernel), bias, output_kernel)


def _rows(x):
    return tf.reshape(x, [-1, x.shape[-1]])


def _product(x, kernel, transpose_b=False):
    """Return the product of `[..., width]` and a matrix, computed as one product of rows."""
    product = tf.matmul(_rows(x), kernel, transpose_b=transpose_b)
    return tf.reshape(product, tf.concat([tf.shape(x)[:-1], tf.shape(product)[-1:]], axis=0))


def _add_norm(x, bias, residual, scale, offset, epsilon):
    @_of_tensors
    @tf.custom_gradient
    def normalized(x, bias, residual, scale, offset):
        outputs, normal, inverse = _add_norm_forward(x, bias, residual, scale, offset, epsilon)

        def gradient(upstream):
            total, scale_summands = _add_norm_backward(normal, inverse, scale, upstream)
            return (
                total,
                _column_sums(total, bias.dtype),
                total,
                _column_sums(scale_summands, scale.dtype),
                _column_sums(upstream, offset.dtype),
            )

        return outputs, gradient

    return normalized(x, bias, residual, scale, offset)


@tf.function(autograph=False, jit_compile=True)
def _add_norm_forward(x, bias, residual, scale, offset, epsilon):
    """Return the outputs and, for the gradient, the normalized input and its scale."""
    dtype = x.dtype
    x, bias, residual, scale, offset = _wide(x, bias, residual, scale, offset)
    total = x + bias + residual
    centered = total - _row_means(total)
    inverse = tf.math.rsqrt(_row_means(centered * centered) + epsilon)
    normal = centered * inverse
    return tf.cast(normal * scale + offset, dtype), tf.cast(normal, dtype), inverse


@tf.function(autograph=False, jit_compile=True)
def _add_norm_backward(normal, inverse, scale, upstream):
    """Return the gradient of the normalized sum, and the summands of the gradient of the scale."""
    dtype = normal.dtype
    normal, scale, upstream = _wide(normal, scale, upstream)
    normal_gradient = upstream * scale
    along = _row_means(normal_gradient * normal)
    total = (normal_gradient - _row_means(normal_gradient) - normal * along) * inverse
    return tf.cast(total, dtype), tf.cast(upstream * normal, dtype)


def _attention(query, key, value, attention_mask, dropout=None):
    scale, added_scores = query.shape[-1] ** -0.5, mask_scores(attention_mask)
    drop = dropout or tf.identity

    # Attention weights grow with the square of the length: they are computed again, not kept.
    def weights_of(query):
        return _softmax_forward(tf.matmul(query, key, transpose_b=True), added_scores, scale)

    @tf.custom_gradient
    def context_of(query, key, value):
        def gradient(upstream):
            # Not computed early, nor merged with the weights of the forward pass.
            with tf.control_dependencies([upstream]):
                weights = weights_of(tf.identity(query))
            value_gradient = tf.matmul(drop(weights), upstream, transpose_a=True)
            # Dropout multiplies element by element, so it does the same to gradients.
            weights_gradient = drop(tf.matmul(upstream, value, transpose_b=True))
            scores_gradient = _softmax_backward(weights, scale, weights_gradient)
            key_gradient = tf.matmul(scores_gradient, query, transpose_a=True)
            return tf.matmul(scores_gradient, key), key_gradient, value_gradient

        return tf.matmul(drop(weights_of(query)), value), gradient

    return context_of(query, key, value)


@tf.function(autograph=False, jit_compile=True)
def _softmax_forward(scores, added_scores, scale):
    total = tf.cast(scores, tf.float32) * scale + added_scores
    powers = tf.exp(total - _row_maxima(total))
    return tf.cast(powers / _row_sums(powers), scores.dtype)


@tf.function(autograph=False, jit_compile=True)
def _softmax_backward(weights, scale, upstream):
    dtype = weights.dtype
    weights, upstream = _wide(weights, upstream)
    along = _row_sums(weights * upstream)
    return tf.cast(weights * (upstream - along) * scale, dtype)


# Number of uses of a weight whose gradients are in memory at once.
_GROUP_SIZE = 3


def copies_in_groups(weight, count: int) -> list[tf.Tensor]:
    """Copy a weight, once per use, such that gradients are added up in float32, group by group.

    The backward pass adds the gradients of a group to the sum of those of the groups after it. So
    few gradients are in memory at once, and the sum is rounded to the weight's dtype only once.
    """
    if count == 1:
        return [weight]
    fixed, rest = tf.stop_gradient(weight), tf.cast(weight, tf.float32)
    copies: list[tf.Tensor] = []
    while len(copies) < count - _GROUP_SIZE:
        *group, rest = _group(fixed, rest, _GROUP_SIZE)
        copies += group
    return [*copies, *_group(fixed, rest, count - len(copies), is_last=True)]


def _group(weight, rest, count, is_last=False):
    """`count` copies of a weight and, unless it is the last group, a stand-in for the other groups.

    The sum of all their gradients is the gradient of `rest`, in float32.
    """

    @tf.custom_gradient
    def group_of(rest):
        copies = [tf.identity(weight) for _ in range(count)]
        return copies if is_last else [*copies, tf.identity(rest)], lambda *upstream: _sum(upstream)

    return group_of(rest)


def _sum(tensors):
    if all(tensor.dtype == tf.float32 for tensor in tensors):
        return tf.add_n(tensors)  # one pass by itself, with nothing to compile
    return _wide_sum(tensors)


@tf.function(autograph=False, jit_compile=True)
def _wide_sum(tensors):
    return tf.add_n(_wide(*tensors))


class _VocabularyLogits:
    """Logits that `_score` computes together with their loss; anything else gets a tensor."""

    def __init__(self, hidden, table, bias):
        self.factors = hidden, table, bias

    def __tf_tensor__(self, dtype=None, name=None):
        return PLAIN_KERNELS.vocabulary_logits(*self.factors)


def _score(logits, labels):
    if not isinstance(logits, _VocabularyLogits):
        return PLAIN_KERNELS.score(logits, labels)
    hidden, table, bias = map(tf.convert_to_tensor, logits.factors)
    scores = _vocabulary_score(_rows(hidden), table, bias, tf.reshape(labels, [-1]))
    return tuple(tf.reshape(score, tf.shape(labels)) for score in scores)


@tf.custom_gradient
def _vocabulary_score(hidden, table, bias, labels):
    # These are a small model's largest tensors, and passes over them took a third of a step. The
    # gradient of the logits comes from the forward pass but for a factor of each row, which the
    # narrow factors of the products take, and the float32 logits are never in memory.
    product = tf.matmul(hidden, table, transpose_b=True)
    losses, correct, differences, sums = _vocabulary_score_forward(product, bias, labels)

    def gradient(upstream, _):
        factors = upstream[:, None] / sums
        wide = tf.cast(tf.matmul(differences, table), tf.float32)
        scaled = tf.concat([tf.cast(hidden, tf.float32) * factors, factors], axis=1)
        columns = tf.matmul(differences, tf.cast(scaled, hidden.dtype), transpose_a=True)
        bias_gradient = tf.cast(columns[:, -1], bias.dtype)
        return tf.cast(wide * factors, hidden.dtype), columns[:, :-1], bias_gradient, None

    return (losses, correct), gradient


@tf.function(autograph=False, jit_compile=True)
def _vocabulary_score_forward(product, bias, labels):
    """Return losses, whether the label has the largest logit, and the gradient in two factors.

    The gradient of a row's logits is `differences / sums`, the probabilities minus the label's 1.
    """
    logits = tf.cast(product, tf.float32) + bias
    largest = _row_maxima(logits)
    powers = tf.exp(logits - largest)
    sums = _row_sums(powers)
    label_logits = tf.gather(logits, labels, batch_dims=1)
    is_label = tf.range(logits.shape[-1], dtype=labels.dtype)[None, :] == labels[:, None]
    losses = (tf.math.log(sums) + largest)[:, 0] - label_logits
    differences = tf.where(is_label, powers - sums, powers)
    correct = tf.cast(label_logits >= largest[:, 0], tf.float32)
    return losses, correct, tf.cast(differences, product.dtype), sums


CPU_KERNELS = dataclasses.replace(
    PLAIN_KERNELS,
    gelu=_gelu,
    feed_forward=_feed_forward,
    add_norm=_add_norm,
    attention={**ATTENTION, DEFAULT: _attention},
    vocabulary_logits=_VocabularyLogits,
    score=_score,
)
