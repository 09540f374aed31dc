"""The preflight's estimate for Llama 2 of 7 B on one H100, of 8 that share its weights.

    KERAS_BACKEND=jax python -m benchmarks.gpu_decoder

Gradients of 2 sequences of 4,096 tokens, compiled with 2 and 4 layers and extrapolated to 32.
Optimizer and communication are not in it. MaxText's step takes 0.721 s (docs/gpu.md).
"""

from albert_tf.preflight.compiling import find_devices, measure  # isort: skip

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from albert_tf.preflight.bounds import step_time
from albert_tf.preflight.gpus import parse_devices

WIDTH, HEADS, INNER, VOCABULARY, BATCH, LENGTH = 4096, 32, 11008, 32000, 2, 4096


def norm(x, scale):
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, -1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + 1e-5)).astype(x.dtype) * scale


def rotated(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(LENGTH)[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = (part[None, :, None] for part in (jnp.cos(angles), jnp.sin(angles)))
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    parts = first * cos - second * sin, second * cos + first * sin
    return jnp.concatenate(parts, -1).astype(x.dtype)


def layer(weights, x):
    hidden = norm(x, weights["norm"])
    shape = BATCH, LENGTH, HEADS, WIDTH // HEADS
    query, key, value = ((hidden @ weights[name]).reshape(shape) for name in "qkv")
    context = jax.nn.dot_product_attention(
        rotated(query), rotated(key), value, is_causal=True, implementation="cudnn"
    )
    x = x + context.reshape(x.shape) @ weights["o"]
    hidden = norm(x, weights["other_norm"])
    return x + (jax.nn.silu(hidden @ weights["gate"]) * (hidden @ weights["up"])) @ weights["down"]


def loss(params, ids):
    params = jax.tree.map(lambda weight: weight.astype(jnp.bfloat16), params)
    x = params["embeddings"][ids]
    policy = jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims
    for weights in params["layers"]:
        x = jax.checkpoint(layer, policy=policy)(weights, x)
    logits = (norm(x, params["norm"]) @ params["output"]).astype(jnp.float32)
    of_labels = jnp.take_along_axis(logits, ids[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - of_labels)


def estimate(layers: int) -> float:
    where = parse_devices("h100")
    devices, settings = find_devices(where)
    sharding = SingleDeviceSharding(devices[0])

    def shape(*sizes, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=sharding)

    weights = {name: shape(WIDTH, WIDTH) for name in "qkvo"}
    weights |= {name: shape(WIDTH, INNER) for name in ("gate", "up")}
    weights |= {"down": shape(INNER, WIDTH), "norm": shape(WIDTH), "other_norm": shape(WIDTH)}
    params = {"embeddings": shape(VOCABULARY, WIDTH), "output": shape(WIDTH, VOCABULARY)}
    params |= {"norm": shape(WIDTH), "layers": [weights] * layers}
    lowered = jax.jit(jax.grad(loss)).lower(params, shape(BATCH, LENGTH, dtype=jnp.int32))
    compiled = measure(
        lambda: lowered.compile(compiler_options=settings).runtime_executable(),
        lowered.compiler_ir("stablehlo"),
        where,
        1,
    )
    return step_time(compiled, where).estimate


if __name__ == "__main__":
    two, four = estimate(2), estimate(4)
    print(f"{four + 14 * (four - two):.3f} s")
