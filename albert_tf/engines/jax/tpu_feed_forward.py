"""The feed-forward network as one TPU kernel forward and one backward.

Of what is as wide as the network's inner layer, only the input of the GELU is written to HBM. XLA
also writes the gradient of that, and computes the GELU three times, once for each product that
needs it. For 16,384 tokens and the network of base, the compiler's profiles for v6e have 0.58 ms
for both kernels, and 0.80 ms for XLA's program.

Both matrices, and the sums of their gradients, stay in fast memory while blocks of tokens pass.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from albert_tf.engines.jax.triton_attention import product

# Tokens that a program computes.
BLOCK = 512

# Bytes of fast memory, of the generations whose devices are a single core and where this is faster
# than XLA's program; on v5e, it is not.
MEMORY = {"v6e": 128 * 2**20, "tpu7x": 64 * 2**20}

# Columns of a register.
_LANES = 128

# Of the tanh-approximated GELU.
_SCALE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def applies(hidden, kernel, memory: int) -> bool:
    """Return whether there is a kernel for this network, with so many bytes of fast memory.

    Its input is `hidden` `[..., width]`, its first matrix `kernel` `[width, inner]`.
    """
    width, inner = kernel.shape
    tokens = math.prod(hidden.shape[:-1])
    aligned = tokens % BLOCK == width % _LANES == inner % _LANES == 0
    return aligned and _needed(width, inner) <= memory and hidden.dtype == jnp.bfloat16


def _needed(width: int, inner: int) -> int:
    """Return the bytes of fast memory that the backward kernel needs."""
    matrices = 2 * width * inner * (2 + 4)
    # Of tokens, which are fetched and written while others are computed.
    rows = 2 * BLOCK * (3 * width + inner) * 2
    return matrices + rows + BLOCK * inner * 16


def feed_forward(hidden, kernel, bias, output_kernel, interpret: bool = False):
    """Return `gelu(hidden @ kernel + bias) @ output_kernel`, in the dtype and shape of `hidden`.

    Args:
        hidden: `[..., width]`, with a multiple of `BLOCK` rows.
        kernel, bias, output_kernel: `[width, inner]`, `[inner]` and `[inner, width]`.
        interpret: whether the kernels are interpreted, which works on any device.
    """
    tokens = hidden.reshape(-1, hidden.shape[-1])
    fed = _feed_forward(tokens, kernel, bias[None].astype(jnp.float32), output_kernel, interpret)
    return fed.reshape(hidden.shape)


def _forward_kernel(tokens, kernel, bias, output_kernel, fed, inner):
    inner[...] = (product(tokens[...], kernel[...], (1, 0)) + bias[...]).astype(inner.dtype)
    x = inner[...]
    activated = 0.5 * x * (1 + jnp.tanh(_SCALE * x * (1 + _CUBIC * x * x)))
    fed[...] = product(activated, output_kernel[...], (1, 0), fed.dtype)


def _backward_kernel(tokens, upstream, inner, kernel, output_kernel, *gradients):
    tokens_gradient, kernel_gradient, bias_gradient, output_gradient = gradients

    @pl.when(pl.program_id(0) == 0)
    def _():
        for total in gradients[1:]:
            total[...] = jnp.zeros_like(total)

    x = inner[...]
    square = x * x
    tanh = jnp.tanh(_SCALE * x * (1 + _CUBIC * square))
    half = 0.5 * (1 + tanh)
    slope = half + 0.5 * x * (1 - tanh * tanh) * (_SCALE * (1 + 3 * _CUBIC * square))
    wide = product(upstream[...], output_kernel[...], (1, 1)) * slope
    bias_gradient[...] += jnp.sum(wide, axis=0, keepdims=True)
    inner_gradient = wide.astype(x.dtype)
    output_gradient[...] += product(x * half, upstream[...], (0, 0))
    kernel_gradient[...] += product(tokens[...], inner_gradient, (0, 0))
    tokens_gradient[...] = product(inner_gradient, kernel[...], (1, 1), tokens_gradient.dtype)


def _call(kernel, direction: str, tokens, weights, results, sums, interpret: bool):
    """Run a kernel for all blocks of tokens, one after the other; `direction` is in its name.

    It reads blocks of `tokens`, with a row for each, and whole `weights`, the first `[width,
    inner]`. It writes arrays like `results` block by block, and adds to arrays like `sums`.
    """

    def block(array):
        return pl.BlockSpec((BLOCK, array.shape[1]), lambda number: (number, 0))

    def whole(array):
        return pl.BlockSpec(array.shape, lambda _: (0, 0), pipeline_mode=pl.Buffered(1))

    return pl.pallas_call(
        kernel,
        name=f"feed_forward_{direction}",
        grid=(len(tokens[0]) // BLOCK,),
        in_specs=[*map(block, tokens), *map(whole, weights)],
        out_specs=[*map(block, results), *map(whole, sums)],
        out_shape=[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (*results, *sums)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=_needed(*weights[0].shape)
        ),
        interpret=interpret,
    )(*tokens, *weights)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _feed_forward(tokens, kernel, bias, output_kernel, interpret):
    return _forward(tokens, kernel, bias, output_kernel, interpret)[0]


def _forward(tokens, kernel, bias, output_kernel, interpret):
    inner = jax.ShapeDtypeStruct((len(tokens), kernel.shape[1]), tokens.dtype)
    weights = kernel, bias, output_kernel
    fed, inner = _call(
        _forward_kernel, "forward", (tokens,), weights, (tokens, inner), (), interpret
    )
    return fed, (tokens, inner, kernel, bias, output_kernel)


def _backward(interpret, saved, upstream):
    tokens, inner, kernel, bias, output_kernel = saved
    weights = kernel, bias, output_kernel
    sums = [jax.ShapeDtypeStruct(each.shape, jnp.float32) for each in weights]
    read = tokens, upstream, inner
    tokens_gradient, *gradients = _call(
        _backward_kernel, "backward", read, (kernel, output_kernel), (tokens,), sums, interpret
    )
    return tokens_gradient, *(
        gradient.astype(each.dtype) for gradient, each in zip(gradients, weights, strict=True)
    )


_feed_forward.defvjp(_forward, _backward)
