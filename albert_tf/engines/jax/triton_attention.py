"""Attention with dropout of its weights for GPUs, fused into one kernel by Triton.

cuDNN has one, too, but draws by a counter of the process: a resumed run would drop other weights.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from albert_tf.modeling.attention import MASKED_SCORE

# Rows and columns of the scores that a program computes at once.
BLOCK = 64

# Powers of two, as Triton's tiles are.
HEAD_SIZES = (16, 32, 64, 128)


def applies(queries, dtype) -> bool:
    """Return whether there is a kernel for a shape of query and key, and their dtype."""
    length, head_size = queries[2:]
    return dtype == jnp.bfloat16 and length % BLOCK == 0 and head_size in HEAD_SIZES


def dropout_attention(query, key, value, ids, rate: float, seed, interpret: bool = False):
    """Return scaled dot-product attention, with dropout of its weights (arXiv 2205.14135).

    A program of the forward kernel has the queries of a tile, and goes through the keys. One of the
    backward kernel goes through the queries for the gradients of its keys and values, then through
    the keys for those of its queries. Weights are computed again by the logarithm of their sum of
    exponentials, and what is dropped is drawn again: it is a function of the seed and the place of
    the weight alone, on every GPU and in the interpreter of Pallas.

    Args:
        query: `[batch, heads, seq, head_size]`; `seq` is a multiple of `BLOCK`, `head_size` among
            `HEAD_SIZES`.
        key, value: as `query`.
        ids: of the examples of queries and keys, int32 `[batch, 2, seq]`; a query has its own keys.
        rate: probability of dropping a weight, in (0, 1).
        seed: integers `[2]`.
        interpret: whether the kernels are interpreted, which works on any device.

    Returns:
        `[batch, heads, seq, head_size]`, in the dtype of `query`.
    """
    shape = query.shape
    query, key, value = (each.reshape(-1, *shape[2:]) for each in (query, key, value))
    words = words_of_heads(seed, len(query))
    context = _attention(query * shape[-1] ** -0.5, key, value, ids, words, rate, interpret)
    return context.reshape(shape)


def words_of_heads(seed, heads: int):
    """Return random words, uint32 `[heads, 2]` of all sequences."""
    generator = jax.random.wrap_key_data(seed.astype(jnp.uint32), impl="threefry2x32")
    return jax.random.bits(generator, (heads, 2))


def random_bits(words, rows, columns, length: int):
    """Return random bits of places in the scores of a head, uint32, by the two `words` of the head.

    Each is a hash of the place's number: xorshifts and products, as in the finalizers of
    MurmurHash, with a word before and between the products.
    """
    bits = (rows * length + columns).astype(jnp.uint32) ^ words[0]
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = ((bits ^ (bits >> 13)) + words[1]) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)


def _tile(number):
    return pl.ds(number * BLOCK, BLOCK)


def product(left, right, contracted: tuple[int, int], dtype=jnp.float32):
    """Return the product of two matrices over an axis of each, added up in float32."""
    dimensions = (((contracted[0],), (contracted[1],)), ((), ()))
    summed = jax.lax.dot_general(left, right, dimensions, preferred_element_type=jnp.float32)
    return summed.astype(dtype)


def _scores(query, key, ids, of_queries, of_keys):
    is_own = ids[0, of_queries][:, None] == ids[1, of_keys][None, :]
    return jnp.where(is_own, product(query, key, (1, 1)), MASKED_SCORE)


def _factors(words, row, column, length: int, rate: float):
    """Return 0 or 1 / (1 - rate) for the weights of a tile, by its row and column of tiles."""
    places = (jax.lax.broadcasted_iota(jnp.int32, (BLOCK, BLOCK), axis) for axis in (0, 1))
    rows, columns = (BLOCK * tile + each for tile, each in zip((row, column), places, strict=True))
    bits = random_bits((words[0], words[1]), rows, columns, length)
    return jnp.where(bits < jnp.uint32(rate * 2**32), 0.0, 1 / (1 - rate))


def _forward_kernel(words, ids, query, key, value, context, sums, *, rate: float):
    length, head_size = key.shape
    row = pl.program_id(1)
    queries = query[_tile(row), :]

    def add(column, state):
        added, largest, total = state
        keys = _tile(column)
        scores = _scores(queries, key[keys, :], ids, _tile(row), keys)
        larger = jnp.maximum(largest, jnp.max(scores, axis=1))
        weights = jnp.exp(scores - larger[:, None])
        shrunk = jnp.exp(largest - larger)
        total = total * shrunk + jnp.sum(weights, axis=1)
        weights *= _factors(words, row, column, length, rate)
        more = product(weights.astype(value.dtype), value[keys, :], (1, 0))
        return added * shrunk[:, None] + more, larger, total

    state = jnp.zeros((BLOCK, head_size)), jnp.full(BLOCK, -jnp.inf), jnp.zeros(BLOCK)
    added, largest, total = jax.lax.fori_loop(0, length // BLOCK, add, state)
    context[...] = (added / total[:, None]).astype(context.dtype)
    sums[...] = largest + jnp.log(total)


def _backward_kernel(
    words, ids, query, key, value, sums, upstream, totals, *gradients, rate: float
):
    query_gradient, key_gradient, value_gradient = gradients
    length, head_size = key.shape
    own = pl.program_id(1)
    tiles, zeros = length // BLOCK, jnp.zeros((BLOCK, head_size))

    def of_tile(row, column):
        """Return the weights that were kept, and the gradients of the scores."""
        queries, keys = _tile(row), _tile(column)
        scores = _scores(query[queries, :], key[keys, :], ids, queries, keys)
        weights = jnp.exp(scores - sums[queries][:, None])
        factors = _factors(words, row, column, length, rate)
        along = product(upstream[queries, :], value[keys, :], (1, 1)) * factors
        along = weights * (along - totals[queries][:, None])
        return (weights * factors).astype(key.dtype), along.astype(key.dtype)

    def add_keys(row, state):
        kept, along = of_tile(row, own)
        of_key = product(along, query[_tile(row), :], (0, 0))
        of_value = product(kept, upstream[_tile(row), :], (0, 0))
        return state[0] + of_key, state[1] + of_value

    def add_queries(column, state):
        return state + product(of_tile(own, column)[1], key[_tile(column), :], (1, 0))

    of_key, of_value = jax.lax.fori_loop(0, tiles, add_keys, (zeros, zeros))
    key_gradient[...] = of_key.astype(key.dtype)
    value_gradient[...] = of_value.astype(key.dtype)
    of_query = jax.lax.fori_loop(0, tiles, add_queries, zeros)
    query_gradient[...] = of_query.astype(key.dtype)


def _call(kernel: Callable, direction: str, words, ids, tensors, results, rate, interpret):
    """Run a kernel for each head and tile of its rows, of which `results` get one each."""
    from jax.experimental.pallas import triton  # not in JAX for all systems

    heads, length, _ = tensors[0].shape
    of_sequence = heads // len(ids)

    def whole(array):
        return pl.BlockSpec((None, *array.shape[1:]), lambda h, _: (h, *[0] * (array.ndim - 1)))

    def tile(array):
        rest = array.shape[2:]
        return pl.BlockSpec((None, BLOCK, *rest), lambda h, t: (h, t, *[0] * len(rest)))

    of_ids = pl.BlockSpec((None, 2, length), lambda h, _: (h // of_sequence, 0, 0))
    return pl.pallas_call(
        functools.partial(kernel, rate=rate),
        name=f"dropout_attention_{direction}",
        grid=(heads, length // BLOCK),
        in_specs=[whole(words), of_ids, *map(whole, tensors)],
        out_specs=[*map(tile, results)],
        out_shape=[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in results],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
    )(words, ids, *tensors)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _attention(query, key, value, ids, words, rate, interpret):
    return _attention_forward(query, key, value, ids, words, rate, interpret)[0]


def _attention_forward(query, key, value, ids, words, *options):
    tensors, sums = (query, key, value), jax.ShapeDtypeStruct(query.shape[:2], jnp.float32)
    context, sums = _call(_forward_kernel, "forward", words, ids, tensors, (query, sums), *options)
    return context, (ids, words, tensors, context, sums)


def _attention_backward(*arguments):
    *options, (ids, words, tensors, context, sums), upstream = arguments
    # Of the weights times their gradients.
    totals = jnp.sum(upstream.astype(jnp.float32) * context.astype(jnp.float32), axis=-1)
    read = *tensors, sums, upstream, totals
    gradients = _call(_backward_kernel, "backward", words, ids, read, tensors, *options)
    return *gradients, None, None


_attention.defvjp(_attention_forward, _attention_backward)
