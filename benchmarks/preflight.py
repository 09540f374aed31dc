"""What the TPU compiler reports for the recipes: the table of docs/howto/preflight.md.

    python -m benchmarks.preflight --only=xxlarge_v1
    python -m benchmarks.preflight --engine=jax

Compiles the training step of recipes of configs/pretraining for slices of several generations, one
program after the other, each with the largest of some micro-batches that fits: without --remat, and
with it only where none fits without. Needs what the preflight needs, and a minute or more for
every program. Lines come as they are known.
"""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Iterator, Sequence

from absl import flags

from albert_tf.hardware.slices import GIB, Slice, parse_slice
from albert_tf.options import command, define_flags, from_flags, option
from albert_tf.tpu.bounds import Compiled, step_time
from albert_tf.tpu.preflight import Compiler, check_installed
from albert_tf.tpu.preflight_options import PreflightOptions

# Of each engine: recipe, slice, micro-batches to try.
TENSORFLOW_CASES = (
    ("base_v1", "v3:8x8", (32, 16)),
    ("xxlarge_v1", "v3:16x32", (4, 2)),
    ("xxlarge_v1", "v4:4x4x8", (32, 16)),
    ("xxlarge_v1", "v5e:16x16", (16, 8)),
    ("xxlarge_v1", "v6e:16x16", (16, 8)),
    ("base_v1", "v4:2x4x4", (128, 64)),
    ("base_v1", "v5e:8x8", (64, 32)),
    ("base_v1", "v6e:8x8", (64, 32)),
    ("base_v2", "v3:8x8", (32, 16)),
    ("large_v1", "v3:8x8", (16, 8)),
    ("large_v2", "v3:8x8", (32, 16)),
    ("xlarge_v1", "v3:16x16", (8, 4)),
    ("xlarge_v2", "v3:16x16", (8, 4)),
    ("xxlarge_6_layers", "v3:16x32", (4, 2)),
    ("base_batch512", "v3:2x2", (64, 32)),
)
# The two slices of docs/tpu.md, and larger ones of v5e, whose devices have the least memory.
JAX_CASES = (
    ("base_v1", "v5e:2x4", (32, 16)),
    ("base_v2", "v5e:2x4", (64, 32)),
    ("base_batch512", "v5e:2x4", (32, 16)),
    ("base_v1", "v5e:8x8", (32, 16)),
    ("base_v2", "v5e:8x8", (64, 32)),
    ("large_v1", "v5e:8x8", (16, 8)),
    ("large_v2", "v5e:8x8", (32, 16)),
    ("xlarge_v1", "v5e:8x8", (8, 4)),
    ("xlarge_v2", "v5e:8x8", (8, 4)),
    ("xxlarge_6_layers", "v5e:8x8", (16, 8)),
    ("xxlarge_v1", "v5e:16x16", (8, 4)),
    ("xxlarge_v2", "v5e:16x16", (8, 4)),
)
CASES = {"tensorflow": TENSORFLOW_CASES, "jax": JAX_CASES}
COLUMNS = (
    "recipe", "slice", "devices", "share", "micro-batch", "remat", "HBM needed, GiB", "TFLOP",
    "GB moved", "bound, ms", "by", "estimate, ms", "of peak", "examples/s at most",
    "compiled in, s",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    engine: str = option("tensorflow", "Engine whose step is compiled.", choices=tuple(CASES))
    only: tuple[str, ...] = option((), "Recipes or slices; without it, all of the list.")
    compile_minutes: float = option(60.0, "How long one program may take to compile.")


def recipe(name: str, where: Slice, options: Options) -> PreflightOptions:
    """Return the preflight's options of a recipe on a slice."""
    values = flags.FlagValues()
    define_flags(PreflightOptions, values)
    values(
        [
            "preflight",
            f"--flagfile=configs/pretraining/{name}.cfg",
            f"--topology={where.name}",
            f"--engine={options.engine}",
            f"--compile_minutes={options.compile_minutes}",
        ]
    )
    return from_flags(PreflightOptions, values)


def largest(
    options: PreflightOptions, where: Slice, sizes: Sequence[int]
) -> Iterator[tuple[int, bool, Compiled]]:
    """Yield sizes from the first on, up to the first that fits."""
    compiler = Compiler(options)
    for remat in (False, True):
        for micro in sizes:
            compiled = compiler.compile(where, options.train_batch_size, micro, remat)
            yield micro, remat, compiled
            if compiled.fits:
                return


def cells(name: str, where: Slice, batch: int, micro: int, remat: bool, compiled: Compiled):
    """Return a row of the table."""
    memory = f"{compiled.memory / GIB:.2f} of {(compiled.available or where.data.memory) / GIB:.2f}"
    start = (
        name, f"`{where.name}` ({where.accelerator})", where.replicas, batch // where.replicas,
        micro, "yes" if remat else "no",
    )  # fmt: skip
    if compiled.error:
        return (*start, f"does not compile: {compiled.error}")
    if not compiled.fits:
        return (*start, f"{memory}: too much")
    time = step_time(compiled, where)
    return (
        *start,
        memory,
        f"{compiled.flops / 1e12:.3f}",
        f"{compiled.memory_bytes / 1e9:.1f}",
        f"{1e3 * time.bound:.1f}",
        time.bound_by,
        f"{1e3 * time.estimate:.1f}",
        f"{time.compute / time.estimate:.0%}",
        f"{batch / time.bound:,.0f}",
        f"{compiled.seconds:.0f}",
    )


def run(options: Options) -> None:
    check_installed()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name, topology, sizes in CASES[options.engine]:
        if options.only and not any(part in (name, topology) for part in options.only):
            continue
        where = parse_slice(topology)
        asked = recipe(name, where, options)
        for micro, remat, compiled in largest(asked, where, sizes):
            row = cells(name, where, asked.train_batch_size, micro, remat, compiled)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"\npeak memory of the largest process: {memory:.1f} GiB")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
