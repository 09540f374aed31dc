"""JAX's own matrix product: the rate of matrix products on this card, for any model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.implementations.workload import Workload


def flops(workload: Workload) -> int:
    """Operations of one product, a multiplication and an addition as two."""
    return 2 * workload.batch_size * workload.length**2


def prepare(workload: Workload):
    """A function that makes a number of products [batch_size, length] x [length, length]."""
    # Not zeros: chips draw less power on those, and run faster than on any real work.
    left, right = (
        jax.random.normal(jax.random.key(seed), (rows, workload.length), workload.dtype)
        for seed, rows in enumerate((workload.batch_size, workload.length))
    )
    multiply = jax.jit(jnp.matmul)

    def work(count: int) -> None:
        for _ in range(count):
            product = multiply(left, right)
        product.block_until_ready()

    return work


def device() -> dict:
    """What JAX computes on, and the peak memory of this process there, in bytes."""
    used = jax.local_devices()[0]
    memory = used.memory_stats() or {}
    return {
        "platform": used.platform,
        "name": used.device_kind,
        "peak_memory": memory.get("peak_bytes_in_use"),
    }
