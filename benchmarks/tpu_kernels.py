"""Schedules of the kernels on each TPU generation: `albert_tf.tpu.costs.KERNELS`.

    python -m benchmarks.tpu_kernels

The TPU compiler, which needs no TPU, writes out the schedule of every kernel: its bundles of
instructions, one a cycle. They are for the scores of 512 queries and 512 keys of one head, or for
512 tokens in the feed-forward network of base, which a kernel computes in a pass, and include what
happens once a kernel. For v5e, v5p and v6e, the
compiler also has a profile of a schedule, with the cycles in which a kernel waits for its own
results; it knows no loops of splash attention, and no dropout on v5e. Waiting for memory is in
neither. A cell has both, where both are known. Needs what the preflight needs, and a minute for a
generation.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from albert_tf.children import run_child
from albert_tf.engines.jax.tpu_attention import HEADS_TOGETHER
from albert_tf.errors import InputError
from albert_tf.hardware.slices import GENERATIONS, Slice
from albert_tf.options import command, option
from albert_tf.tpu.costs import KERNELS
from albert_tf.tpu.preflight import check_installed

HEAD_SIZES = (64, 128)
BATCH, HEADS = 4, 4
# Of the feed-forward network; and blocks of tokens, of which the first waits for the matrices.
WIDTH, INNER, BLOCKS = 768, 3072, 32
SCHEDULE = re.compile(r"total scheduled bundles:\s*(\d+)")
PROFILE = re.compile(r"estimated_cycles: (\d+)")
# Numbers of tokens and dropout rates that lead to each kernel, forward and backward.
SHAPES = ((512, 0.0), (512, 0.1), (1024, 0.0))


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    generations: tuple[str, ...] = option(
        tuple(name for name, each in GENERATIONS.items() if "jax" in each.engines),
        "Generations of TPUs.",
    )


def compile_kernels(generation: str, head_size: int) -> None:
    """Compile all kernels, for one head size."""
    # First, since it has JAX look for no TPU on this machine.
    from albert_tf.tpu.compiling import topologies  # isort: skip

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from albert_tf.engines.jax import tpu_feed_forward
    from albert_tf.engines.jax.attention import tpu_attention
    from albert_tf.modeling.kernels import PLAIN_KERNELS, WeightDropout

    where = Slice(generation, GENERATIONS[generation].shapes[0])
    devices: Any = topologies.get_topology_desc(
        platform="tpu", topology_name=where.name, **where.settings
    ).devices
    placed = NamedSharding(Mesh(np.array(devices[:1]), ("one",)), PartitionSpec())
    for length, rate in SHAPES:

        def gradients(query, key, value, upstream, mask, seed, rate=rate):
            dropout = WeightDropout(rate, seed, PLAIN_KERNELS) if rate else None
            attend = functools.partial(tpu_attention, attention_mask=mask, dropout=dropout)
            context, pullback = jax.vjp(attend, query, key, value)
            return context, pullback(upstream)

        def shape(*sizes, dtype):
            return jax.ShapeDtypeStruct(sizes, dtype, sharding=placed)

        tensors = [shape(BATCH, HEADS, length, head_size, dtype=jnp.bfloat16)] * 4
        mask, seed = shape(BATCH, length, dtype=jnp.int32), shape(2, dtype=jnp.uint32)
        jax.jit(gradients).lower(*tensors, mask, seed).compile()

    if generation in tpu_feed_forward.MEMORY:

        def network_gradients(upstream, *network):
            fed, pullback = jax.vjp(tpu_feed_forward.feed_forward, *network)
            return fed, pullback(upstream)

        tokens = shape(BLOCKS * tpu_feed_forward.BLOCK, WIDTH, dtype=jnp.bfloat16)
        sizes = (WIDTH, INNER), (INNER,), (INNER, WIDTH)
        network = [tokens, *(shape(*each, dtype=jnp.bfloat16) for each in sizes)]
        jax.jit(network_gradients).lower(tokens, *network).compile()


def bundles(generation: str, head_size: int) -> dict[str, int]:
    """Return the number of bundles in each kernel's schedule, for a head or for 512 tokens."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (
            f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
            "--xla_jf_dump_llo_pass_label_regex=final_bundles"
        )
        if error := compile_in_child(generation, head_size, arguments):
            raise InputError(f"{generation}: {error}")
        files = pathlib.Path(folder).glob("*schedule-analysis_final_bundles.txt")
        found = numbers_in(files, SCHEDULE, KERNELS)
    # Our own attention computes more than one head.
    return {
        name: round(count / HEADS_TOGETHER) if "_attention_" in name else count
        for name, count in found.items()
    }


def cycles(generation: str, head_size: int) -> dict[str, int]:
    """Return the cycles for as much, of kernels for which the compiler has a profile.

    It profiles all blocks of a kernel, and ends the process at one that it does not know.
    """
    with tempfile.TemporaryDirectory() as folder:
        compile_in_child(generation, head_size, f"--xla_jf_dump_static_llo_profile_to={folder}")
        data = GENERATIONS[generation]
        heads = BATCH * HEADS * data.devices / data.cores
        found = numbers_in(pathlib.Path(folder).iterdir(), PROFILE, KERNELS)
        return {
            name: round(count / (BLOCKS if name.startswith("feed_forward") else heads))
            for name, count in found.items()
        }


def compile_in_child(generation: str, head_size: int, arguments: str) -> str | None:
    """Compile all kernels in a process of its own, and return its last line if it failed."""
    program = f"benchmarks.tpu_kernels.compile_kernels({generation!r}, {head_size})"
    done = run_child(
        [sys.executable, "-c", f"import benchmarks.tpu_kernels; {program}"],
        env={**os.environ, "LIBTPU_INIT_ARGS": arguments, "KERAS_BACKEND": "jax"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def numbers_in(
    files: Iterable[pathlib.Path], pattern: re.Pattern[str], kernels: Iterable[str]
) -> dict[str, int]:
    """Return the number that a pattern finds in the files of each kernel."""
    return {
        name: int(number)
        for path in sorted(files)
        for name in kernels
        if name in path.name
        for number in pattern.findall(path.read_text())
    }


def main(options: Options) -> None:
    check_installed()
    columns = [(name, size) for name in options.generations for size in HEAD_SIZES]
    print("| kernel |", " | ".join(f"{name}, head of {size}" for name, size in columns), "|")
    print("| --- |", " | ".join("---:" for _ in columns), "|")
    scheduled = [bundles(*column) for column in columns]
    profiled = [cycles(*column) for column in columns]
    for name in KERNELS:
        pairs = zip(scheduled, profiled, strict=True)
        cells = [" / ".join(f"{each[name]:,}" for each in pair if name in each) for pair in pairs]
        print(f"| {name} |", " | ".join(cells), "|")


cli = command(Options, main)

if __name__ == "__main__":
    cli()
