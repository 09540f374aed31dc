"""Whether all devices have the same weights, to the bit.

Each device applies the same update to the same all-reduced gradients on its own, so nothing else
would notice one that drifts.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from albert_tf.engines.jax.devices import DATA
from albert_tf.engines.jax.step import TrainStep
from albert_tf.engines.workers import Workers, compare_replicas


def checksums(program: TrainStep) -> tuple[list[str], np.ndarray]:
    """Sums of the bits of what every device has a copy of.

    Returns:
        Paths of the variables, and int32 `[devices, variables]`.
    """
    state = program.tree
    values = {**state["params"], **state["optimizer"]}
    copies = {path: v for path, v in values.items() if v.sharding.is_fully_replicated}

    def of_device(copies):
        bits = [jax.lax.bitcast_convert_type(value, jnp.int32) for value in copies.values()]
        return jnp.stack([jnp.sum(each) for each in bits])[None]

    of_all = jax.shard_map(
        of_device,
        mesh=program.mesh,
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(DATA),
        check_vma=False,
    )
    everywhere = NamedSharding(program.mesh, PartitionSpec())
    return list(copies), np.asarray(jax.jit(of_all, out_shardings=everywhere)(copies))


def check_replicas(program: TrainStep, step: int, workers: Workers) -> None:
    """Compares the variables of all devices with those of the first.

    Args:
        program: of the variables.
        step: number of updates made so far.
        workers: the processes that the devices belong to.

    Raises:
        InputError: a device has other values.
    """
    if program.mesh.size == 1:
        return
    paths, sums = checksums(program)
    compare_replicas(paths, sums, step, workers, "JAX")
