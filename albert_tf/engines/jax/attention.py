"""Attention on JAX: plain, and fused into one kernel on TPUs and GPUs.

A fused kernel never writes the `[queries, seq]` scores to memory (arXiv 2205.14135). All functions
have the signature described in `albert_tf.modeling.attention` and compute the same: masked keys get
no weight, wherever they are, and padding attends like any other position. A sequence without a
single token, whose outputs have no meaning, gets finite ones.

A fused attention computes the plain one instead where its kernel does not apply:

- fewer queries than keys (the last layer of a training step, at a few positions);
- on a TPU, a length that is not a multiple of 128 or a head size that is not a multiple of 8, and
  with dropout of attention weights (version 1 models), more than 512 tokens;
- on a GPU, dropout of attention weights, float32, an odd length, or a head size that is not a
  multiple of 8 or larger than 128.

One line in the log tells if the reason is dropout.
"""

import functools
import logging
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import splash_attention

from albert_tf.engines.jax.tpu_attention import LONGEST, short_attention
from albert_tf.modeling.attention import dot_product_attention

logger = logging.getLogger(__name__)

# Rows and columns of the scores that a TPU kernel holds in fast memory at once; the first one that
# divides the length is used. Larger blocks than these do not fit.
_BLOCKS = (512, 256, 128)

# How a TPU kernel reads its inputs: positions last. The rows of a head of 64 would be padded to 128
# numbers in memory, and their projections use half of a matrix unit.
_LAYOUT = splash_attention.QKVLayout.SEQ_MINOR


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
    tokens = attention_mask.astype(jnp.int32)
    # Positions attend to those with the same id: all queries have the id of tokens.
    ids = splash_attention.SegmentIds(q=jnp.ones_like(tokens), kv=tokens)
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
    """Return attention by cuDNN's kernels, forward and backward."""
    batch, _, length, head_size = query.shape
    applies = query.shape == key.shape and dropout is None and query.dtype != jnp.float32
    applies = applies and length % 2 == 0 and head_size % 8 == 0 and head_size <= 128
    if not applies:
        return _plain(query, key, value, attention_mask, dropout)
    # cuDNN's mask has a row per query, and its lengths would allow padding at the end only.
    mask = jnp.broadcast_to(
        attention_mask.astype(bool)[:, None, None, :], (batch, 1, length, length)
    )
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
