"""A pretraining step (forward, backward and update) of albert_tf and of other libraries."""

import itertools
from collections.abc import Sequence

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import IMPLEMENTATIONS, OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement, Result, comparison_table, reference_of
from benchmarks.pictures import Bar, Panel

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
    works = [
        cases(size, config, *shape, dtype, IMPLEMENTATIONS + (IN_XLA, ON_JAX) * (size == "base"))
        for (size, config), dtype, shape in itertools.product(sizes.items(), dtypes, shapes)
    ]
    left_out: dict[str, str] = {}
    measurements = compare_each(suite, "pretraining_step", works, left_out)
    table = comparison_table("Pretraining step", measurements, OURS)
    title, panels = picture(measurements)
    return Result(title, measurements, [table], panels, left_out)


def cases(
    size: str, config: AlbertConfig, batch: int, length: int, dtype: str, names: Sequence[str]
) -> list[Case]:
    """Return a step of a model of a `size` in each implementation."""
    workload = Workload("pretraining", config.to_dict(), batch, length, PREDICTIONS, dtype)
    flops = pretraining_flops(config, length, PREDICTIONS)
    work = f"{size}, {batch} x {length}, {dtype}"
    return [Case(name, name, workload, flops, work) for name in names]


def picture(measurements: Sequence[Measurement]) -> tuple[str, list[Panel]]:
    """Return a title and a panel each for base and large: how often as fast ours is."""
    panels, medians = [], []
    for size in ("base", "large"):
        bars = []
        for each in measurements:
            kind, shape, dtype = each.work.split(", ")
            ours = reference_of(each, measurements, OURS)
            if kind == size and ours and each.implementation in IMPLEMENTATIONS:
                ratio = each.times_as_long(ours)
                medians.append(ratio.median)
                bars.append(Bar(f"{shape}\n{dtype}", each.implementation, ratio))
        if bars:
            panels.append(
                Panel(f"ALBERT-{size}", "speed of albert_tf / speed of the library", bars, start=1)
            )
    ends = f"{min(medians):.2f} to {max(medians):.2f}" if medians else ""
    return f"base and large train {ends} times as fast", panels


def compare_each(
    suite: Suite,
    part: str,
    works: Sequence[list[Case]],
    left_out: dict[str, str],
    bound: Case | None = None,
) -> list[Measurement]:
    """Compare the cases of each work, which is called "KIND, BATCH x LENGTH, DTYPE"."""
    measurements: list[Measurement] = []
    for number, cases in enumerate(works, start=1):
        what = f"{part} {number} of {len(works)}: {cases[0].work}"
        measurements += compare(suite, what, cases, left_out, bound)
    return measurements


def bar(measurement: Measurement, group: str) -> Bar:
    """Return the speed of a measurement, with the bound that matrix products set."""
    return Bar(group, measurement.implementation, measurement.speed, measurement.bound)
