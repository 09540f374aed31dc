"""Attention of at most 512 tokens as one TPU kernel forward and one backward, with dropout.

The kernels hold all scores of a head in fast memory, which takes a megabyte at 512 tokens, and
write none of them to HBM; the backward kernel computes them again. Nothing but query, key, value
and mask is kept for it. By the compiler's schedule, both together take 10 to 20 % fewer cycles than
splash attention, which is for any length and has no dropout
(`python -m benchmarks.tpu_kernels`).

Both draw the dropout mask where they need it, by Threefry (the generator of `jax.random`), so it is
never stored. It depends on nothing but the seed and the place of a weight, and is the same on every
chip and in the interpreter of Pallas.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend.random import threefry2x32_p

from albert_tf.modeling.attention import MASKED_SCORE

# Tokens. Scores of a longer sequence do not fit in fast memory.
LONGEST = 512

# Random bits for an element, of the 64 that Threefry draws at a time.
_BITS = 8


def short_attention(
    query, key, value, attention_mask, rate: float = 0.0, seed=None, interpret: bool = False
):
    """Return scaled dot-product attention, with dropout of its weights if there is a seed.

    Args:
        query: `[batch, heads, seq, head_size]`; at most `LONGEST` tokens, a multiple of 128.
        key: as `query`.
        value: as `query`.
        attention_mask: `[batch, seq]`, 1 for tokens and 0 for padding.
        rate: probability of dropping a weight, in [0, 1).
        seed: integers `[2]`; not used if `rate` is 0.
        interpret: whether the kernels are interpreted, which works on any device.

    Returns:
        `[batch, heads, seq, head_size]`, in the dtype of `query`.
    """
    # Positions last: the rows of a head of 64 would be padded to 128 numbers in memory.
    query, key, value = (jnp.swapaxes(each, 2, 3) for each in (query, key, value))
    masked = ((1 - attention_mask.astype(jnp.float32)) * MASKED_SCORE)[:, None, :]
    scalars = jnp.zeros(1, jnp.uint32)
    if rate:
        seed = seed.astype(jnp.uint32)
        heads = query.shape[0] * query.shape[1]
        scalars = jnp.concatenate([seed, thresholds(seed, rate, heads)])
    scalars = jax.lax.bitcast_convert_type(scalars, jnp.int32)
    context = _attention(query, key, value, masked, scalars, rate, interpret)
    return jnp.swapaxes(context, 2, 3)


def thresholds(seed, rate: float, heads: int):
    """Return below which random byte a weight is dropped, uint32 `[heads]`.

    256 steps are too coarse for a rate: the fraction of a step is a matter of chance, by heads.

    Args:
        seed: uint32 `[2]`.
        rate: as of `short_attention`.
        heads: of all sequences.
    """
    chance = jax.random.uniform(jax.random.wrap_key_data(seed, impl="threefry2x32"), (heads,))
    return jnp.floor(2**_BITS * rate + chance).astype(jnp.uint32)


def random_bytes(seed, head, length: int):
    """Return the random bytes of a head, int32 `[queries, keys]`.

    Args:
        seed: two int32 scalars.
        head: int32 scalar, the number of the head among those of all sequences.
        length: of the sequence, a multiple of 8.
    """
    shape = length * _BITS // 64, length
    places = length * jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    places += jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    # The key and the counter of Threefry: no two heads and places have the same.
    words = [jnp.full(shape, word, jnp.int32) for word in (*seed, head)] + [places]
    drawn = threefry2x32_p.bind(*(each.astype(jnp.uint32) for each in words))
    # Eight rows of bytes from each row of two words.
    shifts = range(0, 32, _BITS)
    rows = [(word >> shift) & (2**_BITS - 1) for word in drawn for shift in shifts]
    return jnp.concatenate(rows).astype(jnp.int32)


def _kept(scalars, heads: int, length: int, rate: float):
    """Return factors `[queries, keys]` of the weights of the head that this program computes."""
    head = pl.program_id(0) * heads + pl.program_id(1)
    drawn = random_bytes((scalars[0], scalars[1]), head, length)
    return jnp.where(drawn < scalars[2 + head], 0.0, 1 / (1 - rate))


def _product(left, right, contracted: tuple[int, int], dtype=jnp.float32):
    """Return the product of two matrices over an axis of each, added up in float32."""
    dimensions = (((contracted[0],), (contracted[1],)), ((), ()))
    product = jax.lax.dot_general(left, right, dimensions, preferred_element_type=jnp.float32)
    return product.astype(dtype)


def _weights(query, key, masked):
    """Return the attention weights of a head before dropout, float32 `[queries, keys]`."""
    scores = _product(query, key, (0, 0)) * query.shape[0] ** -0.5 + masked
    exponentials = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    return exponentials / jnp.sum(exponentials, axis=1, keepdims=True)


def _forward_kernel(scalars, query, key, value, masked, context, *, heads: int, rate: float):
    weights = _weights(query[...], key[...], masked[...])
    if rate:
        weights *= _kept(scalars, heads, weights.shape[0], rate)
    context[...] = _product(value[...], weights.astype(value.dtype), (1, 1), context.dtype)


def _backward_kernel(
    scalars, query, key, value, masked, upstream, *gradients, heads: int, rate: float
):
    query_gradient, key_gradient, value_gradient = gradients
    dtype = query.dtype
    weights = _weights(query[...], key[...], masked[...])
    kept = _kept(scalars, heads, weights.shape[0], rate) if rate else 1.0
    value_gradient[...] = _product(upstream[...], (weights * kept).astype(dtype), (1, 0), dtype)
    # The gradient of the weights before dropout, then of the scores before scaling.
    along = _product(upstream[...], value[...], (0, 0)) * kept
    along = weights * (along - jnp.sum(along * weights, axis=1, keepdims=True))
    along = (along * query.shape[0] ** -0.5).astype(dtype)
    query_gradient[...] = _product(key[...], along, (1, 1), dtype)
    key_gradient[...] = _product(query[...], along, (1, 0), dtype)


def _call(
    kernel, direction: str, scalars, tensors, masked, outputs: int, rate: float, interpret: bool
):
    """Run a kernel for each head of each sequence, on blocks `[head_size, seq]`."""
    batch, heads, head_size, length = tensors[0].shape
    kind = "dropout" if rate else "short"
    block = pl.BlockSpec((None, None, head_size, length), lambda b, h, *_: (b, h, 0, 0))
    row = pl.BlockSpec((None, 1, length), lambda b, h, *_: (b, 0, 0))
    query, key, value, *upstream = tensors
    return pl.pallas_call(
        functools.partial(kernel, heads=heads, rate=rate),
        name=f"{kind}_attention_{direction}",
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(batch, heads),
            in_specs=[block, block, block, row, *(block for _ in upstream)],
            out_specs=[block] * outputs,
        ),
        out_shape=[jax.ShapeDtypeStruct(query.shape, query.dtype)] * outputs,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        interpret=interpret,
    )(scalars, query, key, value, masked, *upstream)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _attention(query, key, value, masked, scalars, rate, interpret):
    tensors = query, key, value
    return _call(_forward_kernel, "forward", scalars, tensors, masked, 1, rate, interpret)[0]


def _attention_forward(query, key, value, masked, scalars, rate, interpret):
    context = _attention(query, key, value, masked, scalars, rate, interpret)
    return context, (query, key, value, masked, scalars)


def _attention_backward(rate, interpret, saved, upstream):
    query, key, value, masked, scalars = saved
    tensors = query, key, value, upstream
    gradients = _call(_backward_kernel, "backward", scalars, tensors, masked, 3, rate, interpret)
    return *gradients, None, None


_attention.defvjp(_attention_forward, _attention_backward)
