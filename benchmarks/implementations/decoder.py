"""A decoder-only transformer in JAX, as simple as those whose speed on TPUs is published.

It stands for MaxText's dense models and similar ones in `benchmarks.tpu_calibration`, which
compiles its training step and compares the estimate with the published time. Nothing is ever
computed. Products are bfloat16. Layers of which a part is recomputed in the backward pass are a
loop, others follow one another. Optimizer: AdamW.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Shape of a model and its batch.

    Attributes:
        layers: number of layers.
        width: of the hidden states.
        heads: of queries.
        key_heads: of keys and values.
        head_size: of all of them.
        inner: width of the feed-forward network.
        vocab: number of pieces.
        gated: whether the feed-forward network has a gate, and so three matrices.
        tied: whether the output uses the embeddings.
        batch: sequences in a step of a device.
        micro: sequences in a micro-batch.
        length: tokens in a sequence.
        kept: matrices of a layer whose products are kept for the backward pass, which recomputes
            the rest from them, and "context" for what splash attention keeps; None for everything.
        block: queries and keys of a block of JAX's splash attention; None for plain attention.
        weights: dtype of weights and moments.
        loss_chunks: parts of a sequence whose logits are computed one after the other.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    inner: int
    vocab: int
    gated: bool
    tied: bool
    batch: int
    micro: int
    length: int
    kept: tuple[str, ...] | None
    block: int | None
    weights: str = "float32"
    loss_chunks: int = 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights; those of the layers have an axis for them."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        layer = {
            "query": (self.width, queries),
            "key": (self.width, keys),
            "value": (self.width, keys),
            "output": (queries, self.width),
            "inner": (self.width, self.inner),
            "outer": (self.inner, self.width),
            "attention_norm": (self.width,),
            "inner_norm": (self.width,),
        }
        if self.gated:
            layer["gate"] = (self.width, self.inner)
        shapes = {name: (self.layers, *shape) for name, shape in layer.items()}
        shapes["embeddings"] = (self.vocab, self.width)
        if not self.tied:
            shapes["logits"] = (self.vocab, self.width)
        return shapes


def _sharding(name: str, shape: tuple[int, ...], mesh: Mesh) -> NamedSharding:
    """Return where a weight is: the rows of a matrix are shared, a vector is on all devices."""
    rows = len(shape) - 2
    shared = not name.endswith("norm") and shape[rows] % mesh.size == 0
    axes = [AXIS if shared and axis == rows else None for axis in range(len(shape))]
    return NamedSharding(mesh, PartitionSpec(*axes))


def _norm(x, scale):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + 1e-6)
    return (wide * inverse * scale.astype(jnp.float32)).astype(x.dtype)


def _rotate(x):
    """Return `[batch, heads, length, size]` with rotary positions."""
    half = x.shape[-1] // 2
    frequencies = 1e4 ** -(jnp.arange(half) / half)
    angles = jnp.arange(x.shape[2])[:, None] * frequencies
    sine, cosine = jnp.sin(angles).astype(x.dtype), jnp.cos(angles).astype(x.dtype)
    one, other = x[..., :half], x[..., half:]
    return jnp.concatenate([one * cosine - other * sine, other * cosine + one * sine], -1)


def _attention(query, key, value, block: int | None, mesh: Mesh):
    """Return `[batch, heads, length, size]`; keys and values have as many heads, or fewer."""
    batch, heads, length, size = query.shape
    # The queries that share a head of keys and values are together.
    query = (query * size**-0.5).reshape(-1, heads // key.shape[1], length, size)
    key, value = (each.reshape(-1, length, size) for each in (key, value))
    if block:
        mask = splash_attention.CausalMask((length, length))
        kernel = splash_attention.make_splash_mqa_single_device(
            splash_attention.MultiHeadMask([mask] * query.shape[1]),
            block_sizes=splash_attention.BlockSizes(*(block,) * 8),
            residual_checkpoint_name="context",
        )
        spec = PartitionSpec(AXIS)
        attend = jax.shard_map(
            jax.vmap(kernel), mesh=mesh, in_specs=(spec,) * 3, out_specs=spec, check_vma=False
        )
        context = attend(query, key, value)
    else:
        scores = jnp.einsum("ngqd,nkd->ngqk", query, key).astype(jnp.float32)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9)).astype(query.dtype)
        context = jnp.einsum("ngqk,nkd->ngqd", weights, value)
    return context.reshape(batch, heads, length, size)


def _loss(model: Decoder, mesh: Mesh, weights: dict[str, jax.Array], tokens):
    compute = {name: value.astype(jnp.bfloat16) for name, value in weights.items()}
    layers = {name: value for name, value in compute.items() if name in LAYER_NAMES}
    by_sequence = NamedSharding(mesh, PartitionSpec(AXIS))
    hidden = jax.lax.with_sharding_constraint(compute["embeddings"][tokens], by_sequence)

    def split(x):
        return jnp.swapaxes(x.reshape(*x.shape[:2], -1, model.head_size), 1, 2)

    def layer(hidden, weights):
        # So are their gradients.
        weights = {
            name: jax.lax.with_sharding_constraint(value, _sharding(name, value.shape, mesh))
            for name, value in weights.items()
        }

        def product(x, name):
            return checkpoint_name(x @ weights[name], name)

        x = _norm(hidden, weights["attention_norm"])
        query, key, value = (split(product(x, name)) for name in ("query", "key", "value"))
        context = _attention(_rotate(query), _rotate(key), value, model.block, mesh)
        merged = jnp.swapaxes(context, 1, 2).reshape(*x.shape[:2], -1)
        hidden = hidden + product(merged, "output")
        x = _norm(hidden, weights["inner_norm"])
        inner = product(x, "inner")
        inner = jax.nn.silu(product(x, "gate")) * inner if model.gated else jax.nn.relu(inner)
        hidden += product(inner, "outer")
        return jax.lax.with_sharding_constraint(hidden, by_sequence), None

    if model.kept is not None:
        policy = jax.checkpoint_policies.save_only_these_names(*model.kept)
        hidden, _ = jax.lax.scan(jax.checkpoint(layer, policy=policy), hidden, layers)
    else:
        rows = {name: jnp.unstack(value) for name, value in layers.items()}
        for number in range(model.layers):
            hidden, _ = layer(hidden, {name: row[number] for name, row in rows.items()})
    table = compute["embeddings" if model.tied else "logits"]

    @jax.checkpoint
    def losses(hidden, labels):
        logits = (hidden @ table.T).astype(jnp.float32)
        right = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return jnp.sum(jax.nn.logsumexp(logits, -1) - right)

    labels = jnp.roll(tokens, -1, axis=1)
    length = model.length // model.loss_chunks
    chunks = [slice(first, first + length) for first in range(0, model.length, length)]
    return sum(losses(hidden[:, each], labels[:, each]) for each in chunks) / labels.size


LAYER_NAMES = (
    "query", "key", "value", "output", "inner", "outer", "gate", "attention_norm", "inner_norm"
)  # fmt: skip


def lower_attention(model: Decoder, devices: Any) -> jax.stages.Lowered:
    """Return fused attention and its gradient for two sequences on one device."""
    mesh = Mesh(devices, (AXIS,))
    placed = NamedSharding(mesh, PartitionSpec(AXIS))

    def tensor(heads):
        shape = 2, heads, model.length, model.head_size
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=placed)

    queries, keys = tensor(model.heads), tensor(model.key_heads)

    def gradients(query, key, value, upstream):
        attend = functools.partial(_attention, block=model.block, mesh=mesh)
        context, pullback = jax.vjp(attend, query, key, value)
        return context, pullback(upstream)

    return jax.jit(gradients).lower(queries, keys, keys, queries)


def lower(model: Decoder, devices: Any) -> jax.stages.Lowered:
    """Return the training step on devices that share all weights and moments (FSDP)."""
    mesh = Mesh(devices, (AXIS,))
    batch = NamedSharding(mesh, PartitionSpec(None, AXIS))

    weights = {
        name: jax.ShapeDtypeStruct(shape, model.weights, sharding=_sharding(name, shape, mesh))
        for name, shape in model.shapes().items()
    }
    micro_batches = model.batch // model.micro
    size = (micro_batches, model.micro * len(devices), model.length)
    tokens = jax.ShapeDtypeStruct(size, jnp.int32, sharding=batch)
    gradient = jax.grad(functools.partial(_loss, model, mesh))

    def update(weight, first, second, gradient):
        gradient = gradient.astype(weight.dtype)
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * jnp.square(gradient)
        change = first / (jnp.sqrt(second) + 1e-8) + 0.1 * weight
        return (weight - 1e-4 * change).astype(weight.dtype), first, second

    def step(weights, first, second, tokens):
        if micro_batches == 1:
            gradients = gradient(weights, tokens[0])
        else:

            def add(total, part):
                return jax.tree.map(jnp.add, total, gradient(weights, part)), None

            zeros = jax.tree.map(jnp.zeros_like, weights)
            gradients, _ = jax.lax.scan(add, zeros, tokens)
        updated = {
            name: update(weights[name], first[name], second[name], gradients[name])
            for name in weights
        }
        return [{name: each[part] for name, each in updated.items()} for part in range(3)]

    return jax.jit(step, donate_argnums=(0, 1, 2)).lower(weights, weights, weights, tokens)
