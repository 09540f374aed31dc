"""JAX's matrix product: how fast this device multiplies, independent of any model."""

import jax
import jax.numpy as jnp

from benchmarks.implementations.workload import Workload


def prepare(workload: Workload):
    """Return a function that multiplies a number of times, in the precision of the workload."""
    rows, inner, columns = workload.config["shape"]
    # Not zeros: chips draw less power on those, and run faster than on any real work.
    left, right = (
        jax.random.normal(jax.random.key(seed), shape, workload.dtype)
        for seed, shape in enumerate(((rows, inner), (inner, columns)))
    )
    multiply = jax.jit(jnp.matmul)

    def work(count: int) -> None:
        for _ in range(count):
            product = multiply(left, right)
        product.block_until_ready()

    return work


def device() -> dict:
    """Return what JAX computes on, and the peak memory of this process there, in bytes."""
    used = jax.local_devices()[0]
    memory = used.memory_stats() or {}
    return {
        "platform": used.platform,
        "name": used.device_kind,
        "peak_memory": memory.get("peak_bytes_in_use"),
    }
