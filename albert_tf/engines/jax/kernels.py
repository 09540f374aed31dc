"""Kernels of the model for programs that XLA compiles for TPUs and GPUs.

XLA fuses elementwise operations by itself. Those here have another form or gradients of their own
because the compiler does not find these by itself; comments name what it would do, for a training
step of base on TPU v5e or H100 (`python -m albert_tf.preflight --engine=jax`).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from albert_tf.engines.jax import tpu_feed_forward
from albert_tf.engines.jax.attention import FUSED
from albert_tf.hardware import tpu_generation
from albert_tf.modeling.attention import ATTENTION, DEFAULT, dot_product_attention
from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels


def _arrays(*inputs) -> list[jax.Array]:
    return [jnp.asarray(each) for each in inputs]


def _wide(*arrays):
    return [array.astype(jnp.float32) for array in arrays]


def _column_sums(equation: str, x, dtype):
    """Return sums, added up in float32, that a matrix unit computes as products with ones.

    XLA would compute those of query, key and value in passes over memory that take as long as a
    projection. It also does so for a single row of ones, hence eight. `equation` names the axes of
    the ones but the first, of `x` `[batch, ...]`, and of the sums.
    """
    ones, _, rest = equation.partition(",")
    inputs, _, outputs = rest.partition("->")
    sizes = dict(zip(inputs, x.shape, strict=True))
    ones_of = jnp.ones((8, *(sizes[axis] for axis in ones)), x.dtype)
    product = f"r{ones},{inputs}->r{outputs}"
    return jnp.einsum(product, ones_of, x, preferred_element_type=jnp.float32)[0].astype(dtype)


@jax.custom_vjp
def _add_head_bias(projected, bias):
    """Return the sum of `[batch, heads, seq, head_size]` and `[heads, head_size]`."""
    return projected + bias[:, None, :]


_add_head_bias.defvjp(
    lambda projected, bias: (_add_head_bias(projected, bias), None),
    lambda _, upstream: (upstream, _column_sums("bs,bhsk->hk", upstream, upstream.dtype)),
)


def _project_heads(hidden, kernel, bias, heads):
    hidden, kernel, bias = _arrays(hidden, kernel, bias)
    # Straight to the layout that attention kernels read, without a transposition in memory.
    projected = jnp.einsum("bsd,dhk->bhsk", hidden, kernel.reshape(len(kernel), heads, -1))
    return _add_head_bias(projected, bias.reshape(heads, -1))


def _merge_heads(context, kernel):
    context, kernel = _arrays(context, kernel)
    heads, _, head_size = context.shape[1:]
    return jnp.einsum("bhsk,hkd->bsd", context, kernel.reshape(heads, head_size, -1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _normalized_sum(x, bias, residual, scale, offset, epsilon):
    return _add_norm_forward(x, bias, residual, scale, offset, epsilon)[0]


def _add_norm_forward(x, bias, residual, scale, offset, epsilon):
    dtype = x.dtype
    total = (x + bias + residual).astype(jnp.float32)
    # Both moments in the pass that computes `x`. Inputs are sums with a normalized residual, whose
    # means are small compared with their deviations, so little is lost in the difference.
    mean = jnp.mean(total, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(total), axis=-1, keepdims=True) - jnp.square(mean)
    inverse = jax.lax.rsqrt(jnp.maximum(variance, 0.0) + epsilon)
    normal = (total - mean) * inverse
    outputs = (normal * scale.astype(jnp.float32) + offset.astype(jnp.float32)).astype(dtype)
    return outputs, (normal.astype(dtype), inverse, scale)


def _add_norm_backward(epsilon, saved, upstream):
    normal, inverse, scale = saved
    dtype = normal.dtype
    wide_normal, wide_scale, wide_upstream = _wide(normal, scale, upstream)
    gradient = wide_upstream * wide_scale
    along = jnp.mean(gradient * wide_normal, axis=-1, keepdims=True)
    gradient = gradient - jnp.mean(gradient, axis=-1, keepdims=True) - wide_normal * along
    total = (gradient * inverse).astype(dtype)
    # As reductions, these would be fused into the matrix product that computes `upstream`, which
    # then has too little fast memory left and takes twice as long.
    sums = functools.partial(_column_sums, "bs,bsd->d")
    scale_gradient = sums((wide_upstream * wide_normal).astype(dtype), scale.dtype)
    return total, sums(total, dtype), total, scale_gradient, sums(upstream, scale.dtype)


_normalized_sum.defvjp(_add_norm_forward, _add_norm_backward)


def _add_norm(x, bias, residual, scale, offset, epsilon):
    return _normalized_sum(*_arrays(x, bias, residual, scale, offset), epsilon)


@jax.custom_vjp
def _cross_entropy(logits, labels):
    return _cross_entropy_forward(logits, labels)[0]


def _cross_entropy_forward(logits, labels):
    normalizer = jax.nn.logsumexp(logits, axis=-1)
    label_logits = jnp.sum(jnp.where(_is_label(logits, labels), logits, 0.0), axis=-1)
    return normalizer - label_logits, (logits, labels, normalizer)


def _cross_entropy_backward(saved, upstream):
    # The gradient of log_softmax would add up the upstream gradients over all classes first.
    logits, labels, normalizer = saved
    probabilities = jnp.exp(logits - normalizer[..., None])
    gradient = (probabilities - _is_label(logits, labels)) * upstream[..., None]
    return gradient, None


def _is_label(logits, labels):
    classes = jax.lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1)
    return classes == labels[..., None]


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def _score(logits, labels):
    hits = jnp.argmax(logits, axis=-1) == labels
    return _cross_entropy(logits, labels), hits.astype(jnp.float32)


def _dropout(inputs, rate, seed):
    """Return dropout with bits of the device's own generator, 8 for an element.

    Computing Threefry, as `jax.random` does, takes as long as the matrix products of attention.
    Here it only spreads the seed, since those of neighboring layers and steps are alike.
    """
    state = jax.random.bits(jax.random.wrap_key_data(seed, impl="threefry2x32"), (4,))
    _, bits = jax.lax.rng_bit_generator(state, inputs.shape, jnp.uint8)
    _, row_bits = jax.lax.rng_bit_generator(state ^ 1, (*inputs.shape[:-1], 1), jnp.uint16)
    # 256 steps are too coarse for a rate: the fraction of a step is a matter of chance, by rows.
    steps, fraction = divmod(round(rate * 2**24), 2**16)
    dropped = bits.astype(jnp.int32) < steps + (row_bits < fraction)
    return jnp.where(dropped, 0, inputs / jnp.asarray(1 - rate, inputs.dtype))


@jax.custom_vjp
def _recomputed_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def _recomputed_gelu_backward(x, upstream):
    # Without the barrier, XLA for GPUs keeps the tanh for the backward pass, in as much memory as
    # `x`, and then cannot make bias and GELU a part of cuBLAS's product.
    x, upstream = jax.lax.optimization_barrier((x, upstream))
    _, pullback = jax.vjp(functools.partial(jax.nn.gelu, approximate=True), x)
    return pullback(upstream)


_recomputed_gelu.defvjp(lambda x: (_recomputed_gelu(x), x), _recomputed_gelu_backward)


def _gpu_gelu(x, bias):
    return _recomputed_gelu(jnp.add(*_arrays(x, bias)))


def _gpu_feed_forward(hidden, kernel, bias, output_kernel):
    hidden, kernel, output_kernel = _arrays(hidden, kernel, output_kernel)
    return _gpu_gelu(hidden @ kernel, bias) @ output_kernel


def _tpu_feed_forward(hidden, kernel, bias, output_kernel, memory: int):
    tensors = _arrays(hidden, kernel, bias, output_kernel)
    applies = tpu_feed_forward.applies(tensors[0], tensors[1], memory)
    return (tpu_feed_forward if applies else PLAIN_KERNELS).feed_forward(*tensors)


def create_kernels(attention: str, platform: str, kind: str = "") -> Kernels:
    """Return the kernels for the devices of a platform: "cpu", "gpu" or "tpu".

    `attention` is "plain", "fused" or "auto", which is fused where there is a kernel; "plain" also
    excludes the TPU kernel of the feed-forward network. `kind` is what JAX calls the devices.
    """
    fused = {} if attention == "plain" else FUSED
    kernels = dataclasses.replace(
        PLAIN_KERNELS,
        attention={**ATTENTION, DEFAULT: fused.get(platform, dot_product_attention)},
        score=_score,
        dropout=_dropout,
    )
    if platform == "gpu":
        # The form of the others is for matrix units of TPUs: XLA for GPUs would concatenate all
        # tensors that are multiplied with ones, and copy the biases of heads to whole matrices.
        return dataclasses.replace(kernels, gelu=_gpu_gelu, feed_forward=_gpu_feed_forward)
    feed_forward = PLAIN_KERNELS.feed_forward
    if fused and (memory := tpu_feed_forward.MEMORY.get(tpu_generation(kind) or "")):
        feed_forward = functools.partial(_tpu_feed_forward, memory=memory)
    return dataclasses.replace(
        kernels,
        feed_forward=feed_forward,
        add_norm=_add_norm,
        project_heads=_project_heads,
        merge_heads=_merge_heads,
    )
