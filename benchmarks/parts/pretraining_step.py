"""A pretraining step (forward, backward and update) of albert_tf and of other libraries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import IMPLEMENTATIONS, OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, comparison_table

TINY = AlbertConfig(
    embedding_size=64,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=512,
)
SIZES = {"tiny": TINY, "base": AlbertConfig.preset("base"), "large": AlbertConfig.preset("large")}
# Sequences in a batch, and tokens of each.
SHAPES = ((8, 128), (2, 512))
PREDICTIONS = 20
# Ours, compiled by XLA; base is enough to decide whether this pays off.
IN_XLA = f"{OURS}, --jit_compile"
ON_JAX = f"{OURS} on JAX"
DTYPES = ("float32", "bfloat16")


def run(suite: Suite) -> Result:
    """Return sequences per second of every implementation, at every size, shape and precision."""
    sizes, dtypes, shapes = SIZES, DTYPES, SHAPES
    if suite.quick:
        sizes, dtypes, shapes = {"tiny": TINY}, DTYPES[:1], ((2, 32),)
    works = []
    for size, dtype, (batch, length) in itertools.product(sizes, dtypes, shapes):
        config, work = sizes[size], f"{size}, {batch} x {length}, {dtype}"
        workload = Workload("pretraining", config.to_dict(), batch, length, PREDICTIONS, dtype)
        flops = pretraining_flops(config, length, PREDICTIONS)
        names = IMPLEMENTATIONS + (IN_XLA, ON_JAX) * (size == "base")
        works.append([Case(name, name, workload, flops, work) for name in names])
    measurements, panels, left_out = compare_each(suite, "pretraining_step", works)
    table = comparison_table("Pretraining step", measurements, OURS)
    return Result("Pretraining step", measurements, OURS, [table], panels, left_out)


def bars(measurements: list[Measurement], group: str) -> list[Bar]:
    """Return sequences per second, with the bound that matrix products set."""
    return [
        Bar(group, each.implementation, each.rate, each.rate.median / each.lower_bound_share.median)
        if each.lower_bound_share
        else Bar(group, each.implementation, each.rate)
        for each in measurements
    ]


def compare_each(
    suite: Suite,
    part: str,
    works: Sequence[list[Case]],
    draw: Callable[[list[Measurement], str], list[Bar]] = bars,
    unit: str = "sequences/s",
) -> tuple[list[Measurement], list[Panel], dict[str, str]]:
    """Compare the cases of each work, which is called "KIND, BATCH x LENGTH, DTYPE".

    Returns:
        All measurements, a panel for each kind and precision, and what was left out.
    """
    measurements: list[Measurement] = []
    drawn: dict[str, list[Bar]] = {}
    left_out: dict[str, str] = {}
    for number, cases in enumerate(works, start=1):
        work = cases[0].work
        measured = compare(suite, f"{part} {number} of {len(works)}: {work}", cases, left_out)
        measurements += measured
        kind, shape, dtype = work.split(", ")
        drawn.setdefault(f"{kind}, {dtype}", []).extend(draw(measured, shape))
    panels = [Panel(title, unit, bars=each) for title, each in drawn.items() if each]
    return measurements, panels, left_out
