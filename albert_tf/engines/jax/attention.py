"""Attention on JAX: plain, and fused into one kernel on TPUs and GPUs.

A fused kernel never writes the `[queries, seq]` scores to memory (arXiv 2205.14135). All functions
have the signature described in `albert_tf.modeling.attention` and compute the same: masked keys get
no weight, wherever they are, and padding attends like any other position. A sequence without a
single token, whose outputs have no meaning, gets finite ones.

A fused attention computes the plain one instead where its kernel does not apply:

- fewer queries than keys (the last layer of a training step, at a few positions);
- on a TPU, a length that is not a multiple of 128 or a head size that is not a multiple of 8, and
  with dropout of attention weights (version 1 models), more than 512 tokens;
- on a GPU, float32, an odd length, or a head size that is not a multiple of 8 or larger than 128;
  with dropout, also a length that is not a multiple of 64 or a head size that is no power of two.

One line in the log tells if the reason is dropout.
"""

import functools
import logging
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.extend.random import threefry2x32_p

from albert_tf.engines.jax import triton_attention
from albert_tf.engines.jax.triton_attention import product
from albert_tf.input.features import most_examples
from albert_tf.modeling.attention import MASKED_SCORE, ExampleIds, dot_product_attention

logger = logging.getLogger(__name__)

# Rows and columns of the scores that a TPU kernel holds in fast memory at once; the first one that
# divides the length is used. Larger blocks than these do not fit.
_BLOCKS = (512, 256, 128)

# How a TPU kernel reads its inputs: positions last. The rows of a head of 64 would be padded to 128
# numbers in memory, and their projections use half of a matrix unit.
_LAYOUT = splash_attention.QKVLayout.SEQ_MINOR

# Tokens. Scores of a longer sequence do not fit in fast memory.
LONGEST = 512

# Heads that a program computes, if their number is even: instructions of both overlap.
HEADS_TOGETHER = 2

# Rows by which the matrices of a product grow with the mask: a tile in bfloat16.
_TILE = 16

# Random bits for an element, of the 64 that Threefry draws at a time.
_BITS = 8


def short_attention(
    query, key, value, attention_mask, rate: float = 0.0, seed=None, interpret: bool = False
):
    """Return scaled dot-product attention, with dropout of its weights if there is a seed.

    The kernels, one forward and one backward, hold all scores of a head in fast memory, which takes
    a megabyte at 512 tokens, and write none to HBM; the backward kernel computes them again, with
    the logarithm of their sum of exponentials, as in arXiv 2205.14135. By the compiler's schedule,
    both take 44 to 51 % fewer cycles than splash attention with heads of 64, which is for any
    length and has no dropout. Scores are `[keys, queries]`: sums over the keys add up registers,
    not numbers within them, and results are multiplied by them without a transposition.

    Both draw the dropout mask where they need it, by Threefry (the generator of `jax.random`), so
    it is never stored. It depends on nothing but the seed and the place of a weight, and is the
    same on every chip and in the interpreter of Pallas.

    Args:
        query: `[batch, heads, seq, head_size]`; at most `LONGEST` tokens, a multiple of 128.
        key, value: as `query`.
        attention_mask: as in `albert_tf.modeling.attention`; rows have `most_examples` at most.
        rate: probability of dropping a weight, in [0, 1).
        seed: integers `[2]`; not used if `rate` is 0.
        interpret: whether the kernels are interpreted, which works on any device.

    Returns:
        `[batch, heads, seq, head_size]`, in the dtype of `query`.
    """
    # A power of two, as for heads of 64, changes no digit.
    query = query * query.shape[-1] ** -0.5
    # Positions last: the rows of a head of 64 would be padded to 128 numbers in memory.
    query, key, value = (jnp.swapaxes(each, 2, 3) for each in (query, key, value))
    ids = jnp.stack(_example_ids(attention_mask), axis=1)
    numbers = 2
    if isinstance(attention_mask, ExampleIds):
        numbers = 1 + most_examples(ids.shape[2])
        # The mask (`_scores`) knows no more examples: rather NaN than a wrong result.
        known = jnp.max(ids, axis=(1, 2)) < numbers
        query = jnp.where(known[:, None, None, None], query, jnp.nan)
    scalars = jnp.zeros(1, jnp.uint32)
    if rate:
        seed = seed.astype(jnp.uint32)
        heads = query.shape[0] * query.shape[1]
        scalars = jnp.concatenate([seed, thresholds(seed, rate, heads)])
    scalars = jax.lax.bitcast_convert_type(scalars, jnp.int32)
    context = _attention(query, key, value, ids, scalars, numbers, rate, interpret)
    return jnp.swapaxes(context, 2, 3)


def _example_ids(attention_mask) -> ExampleIds:
    """Return which positions attend to each other, int32; without rows, all queries are tokens."""
    if not isinstance(attention_mask, ExampleIds):
        attention_mask = ExampleIds(jnp.ones_like(attention_mask), attention_mask)
    return ExampleIds(*(each.astype(jnp.int32) for each in attention_mask))


def thresholds(seed, rate: float, heads: int):
    """Return below which random byte a weight is dropped, uint32 `[heads]` of all sequences.

    256 steps are too coarse for a rate: the fraction of a step is a matter of chance, by heads.
    """
    chance = jax.random.uniform(jax.random.wrap_key_data(seed, impl="threefry2x32"), (heads,))
    return jnp.floor(2**_BITS * rate + chance).astype(jnp.uint32)


def random_bytes(seed, head, length: int):
    """Return the random bytes of a head, int32 `[keys, queries]`.

    `seed` is two int32 scalars, `head` the number among all sequences', `length` a multiple of 8.
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


def _kept(scalars, part: int, together: int, heads: int, length: int, rate: float):
    """Return factors `[keys, queries]` of the weights of a head: 0 or 1 / (1 - rate).

    `part` is its number among the `together` heads that this program computes, of `heads` in a
    sequence; `scalars` are seed and thresholds.
    """
    head = pl.program_id(0) * heads + pl.program_id(1) * together + part
    drawn = random_bytes((scalars[0], scalars[1]), head, length)
    return jnp.where(drawn < scalars[2 + head], 0.0, 1 / (1 - rate))


def _scores(query, key, ids, numbers: int):
    """Return the scores of a head, float32 `[keys, queries]`.

    The matrix unit adds the mask. Keys and queries have a row for each of the `numbers` of
    examples: a key has `MASKED_SCORE` in that of its own, a query has 1 in those of all others.
    """
    shape = -(-numbers // _TILE) * _TILE, query.shape[1]
    number = jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    others = jnp.where(number == ids[:1], 0.0, 1.0).astype(query.dtype)
    masked = jnp.where(number == ids[1:], MASKED_SCORE, 0.0).astype(key.dtype)
    return product(jnp.concatenate([key, masked]), jnp.concatenate([query, others]), (0, 0))


def _forward_kernel(
    scalars, ids, query, key, value, context, sums, *, numbers: int, heads: int, rate: float
):
    together, _, length = query.shape
    for part in range(together):
        scores = _scores(query[part], key[part], ids[...], numbers)
        largest = jnp.max(scores, axis=0, keepdims=True)
        weights = jnp.exp(scores - largest)
        total = jnp.sum(weights, axis=0, keepdims=True)
        if rate:
            weights *= _kept(scalars, part, together, heads, length, rate)
        added = product(value[part], weights.astype(value.dtype), (1, 0))
        context[part] = (added / total).astype(context.dtype)
        sums[part] = largest + jnp.log(total)


def _backward_kernel(
    scalars, ids, query, key, value, context, sums, upstream, *gradients, numbers, heads, rate
):
    query_gradient, key_gradient, value_gradient = gradients
    dtype = query.dtype
    together, _, length = query.shape
    for part in range(together):
        # Of the weights times their gradients.
        products = upstream[part].astype(jnp.float32) * context[part].astype(jnp.float32)
        total = jnp.sum(products, axis=0, keepdims=True)
        weights = jnp.exp(_scores(query[part], key[part], ids[...], numbers) - sums[part])
        along = product(value[part], upstream[part], (0, 0))
        kept = weights
        if rate:
            factors = _kept(scalars, part, together, heads, length, rate)
            kept, along = weights * factors, along * factors
        value_gradient[part] = product(upstream[part], kept.astype(dtype), (1, 1), dtype)
        # The gradient of the scores.
        along = (weights * (along - total)).astype(dtype)
        query_gradient[part] = product(key[part], along, (1, 0), dtype)
        key_gradient[part] = product(query[part], along, (1, 1), dtype)


def _call(kernel, direction: str, scalars, ids, tensors, results, numbers, rate, interpret):
    """Run a kernel for the heads of each sequence; `direction` is in its name.

    It reads `scalars` (int32, kept where single numbers are read), `ids` of queries and keys
    (`[batch, 2, seq]`, all below `numbers`) and `tensors`, query and all else, `[batch, heads,
    rows, seq]`, and returns arrays like `results`.
    """
    batch, heads, _, length = tensors[0].shape
    together = math.gcd(heads, HEADS_TOGETHER)

    def block(array):
        return pl.BlockSpec((None, together, array.shape[2], length), lambda b, h, *_: (b, h, 0, 0))

    of_both = pl.BlockSpec((None, 2, length), lambda b, h, *_: (b, 0, 0))
    return pl.pallas_call(
        functools.partial(kernel, numbers=numbers, heads=heads, rate=rate),
        name=f"{'dropout' if rate else 'short'}_attention_{direction}",
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(batch, heads // together),
            in_specs=[of_both, *map(block, tensors)],
            out_specs=[*map(block, results)],
        ),
        out_shape=[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in results],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        interpret=interpret,
    )(scalars, ids, *tensors)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6, 7))
def _attention(query, key, value, ids, scalars, numbers, rate, interpret):
    return _attention_forward(query, key, value, ids, scalars, numbers, rate, interpret)[0]


def _attention_forward(query, key, value, ids, scalars, *options):
    batch, heads, _, length = query.shape
    tensors = query, key, value
    sums = jax.ShapeDtypeStruct((batch, heads, 1, length), jnp.float32)
    context, sums = _call(
        _forward_kernel, "forward", scalars, ids, tensors, (query, sums), *options
    )
    return context, (scalars, ids, (*tensors, context, sums))


def _attention_backward(*arguments):
    *options, (scalars, ids, tensors), upstream = arguments
    read, results = (*tensors, upstream), tensors[:3]
    gradients = _call(_backward_kernel, "backward", scalars, ids, read, results, *options)
    return *gradients, None, None


_attention.defvjp(_attention_forward, _attention_backward)


def tpu_attention_applies(queries, keys, dropout=None) -> bool:
    """Return whether `tpu_attention` has a kernel for these shapes of query and key."""
    length, head_size = queries[2:]
    applies = queries == keys and length % _BLOCKS[-1] == 0 and head_size % 8 == 0
    return applies and (dropout is None or length <= LONGEST)


def tpu_attention(query, key, value, attention_mask, dropout=None, *, interpret: bool = False):
    """Return attention by the kernels for short sequences, or else by JAX's splash attention.

    With `interpret`, kernels are interpreted, on any device.
    """
    length, head_size = query.shape[2:]
    if not tpu_attention_applies(query.shape, key.shape, dropout):
        return _plain(query, key, value, attention_mask, dropout)
    if length <= LONGEST:
        drawn = {} if dropout is None else {"rate": dropout.rate, "seed": dropout.seed}
        return short_attention(query, key, value, attention_mask, **drawn, interpret=interpret)
    kernel = _splash_kernel(query.shape[1], length, interpret)
    ids = splash_attention.SegmentIds(*_example_ids(attention_mask))
    # The kernel does not scale. A power of two, as for heads of 64, changes no digit.
    return jax.vmap(kernel)(query * head_size**-0.5, key, value, ids)


def _splash_kernel(heads: int, length: int, interpret: bool):
    block = next(block for block in _BLOCKS if length % block == 0)
    sizes = splash_attention.BlockSizes(
        block_q=block,
        block_kv=block,
        block_q_dkv=block,
        block_kv_dkv=block,
        use_fused_bwd_kernel=True,
        q_layout=_LAYOUT,
        k_layout=_LAYOUT,
        v_layout=_LAYOUT,
    )
    mask = splash_attention.MultiHeadMask([splash_attention.FullMask((length, length))] * heads)
    return splash_attention.make_splash_mha_single_device(
        mask, block_sizes=sizes, interpret=interpret
    )


def gpu_attention(query, key, value, attention_mask, dropout=None):
    """Return attention by cuDNN's kernels, or with dropout by Triton's, forward and backward."""
    batch, _, length, head_size = query.shape
    applies = query.shape == key.shape and query.dtype != jnp.float32
    if dropout is not None:
        if not applies or not triton_attention.applies(query.shape, query.dtype):
            return _plain(query, key, value, attention_mask, dropout)
        ids = jnp.stack(_example_ids(attention_mask), axis=1)
        drawn = dropout.rate, dropout.seed
        return triton_attention.dropout_attention(query, key, value, ids, *drawn)
    if not (applies and length % 2 == 0 and head_size % 8 == 0 and head_size <= 128):
        return _plain(query, key, value, attention_mask, dropout)
    # cuDNN's mask has a row per query, and its lengths would allow padding at the end only.
    if isinstance(attention_mask, ExampleIds):
        mask = attention_mask.queries[:, None, :, None] == attention_mask.keys[:, None, None, :]
    else:
        mask = attention_mask.astype(bool)[:, None, None, :]
    mask = jnp.broadcast_to(mask, (batch, 1, length, length))
    # JAX expects positions before heads; the compiler removes the double transposition.
    query, key, value = (jnp.swapaxes(each, 1, 2) for each in (query, key, value))
    context = jax.nn.dot_product_attention(query, key, value, mask=mask, implementation="cudnn")
    return jnp.swapaxes(context, 1, 2)


def _plain(query, key, value, attention_mask, dropout):
    if dropout is not None and query.shape == key.shape:
        _log_dropout()
    return dot_product_attention(query, key, value, attention_mask, dropout)


@functools.cache
def _log_dropout() -> None:
    logger.info(
        "attention: plain, since there is no fused attention with dropout of attention weights "
        "(attention_probs_dropout_prob) here"
    )


# Platform -> the attention that takes the place of `dot_product_attention` unless plain is chosen.
FUSED: dict[str, Callable] = {"tpu": tpu_attention, "gpu": gpu_attention}
