"""Fine-tuning steps and inference of albert_tf and of other libraries."""

from __future__ import annotations

import dataclasses

from albert_tf.config import AlbertConfig
from albert_tf.flops import TRAINING, classification_flops
from benchmarks.comparison import IMPLEMENTATIONS, OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Spread
from benchmarks.measurements import Measurement
from benchmarks.parts.pretraining_step import TINY, bars
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, comparison_table

BASE = AlbertConfig.preset("base")
# Sequences in a batch, tokens in a sequence, and precision.
CLASSIFICATION = (
    (8, 128, "float32"),
    (2, 512, "float32"),
    (8, 128, "bfloat16"),
    (2, 512, "bfloat16"),
)
INFERENCE = ((1, 128, "float32"), (8, 128, "float32"), (32, 128, "float32"), (1, 512, "float32"))


def run(suite: Suite) -> Result:
    """Sequences per second in training and milliseconds per batch in inference, of a classifier."""
    config, tasks = BASE, {"classification": CLASSIFICATION, "inference": INFERENCE}
    if suite.quick:
        shapes = ((2, 32, "float32"),)
        config, tasks = TINY, dict.fromkeys(tasks, shapes)
    count = sum(map(len, tasks.values()))
    left_out: dict[str, str] = {}
    measured: dict[str, list[Measurement]] = {}
    panels: dict[str, list[Bar]] = {}
    number = 0
    for task, shapes in tasks.items():
        for batch, length, dtype in shapes:
            number += 1
            work = f"{task}, {batch} x {length}, {dtype}"
            workload = Workload(task, config.to_dict(), batch, length, dtype=dtype)
            flops = classification_flops(config, length, 2)
            if task == "inference":
                flops //= TRAINING
            cases = [Case(name, name, workload, flops, work) for name in IMPLEMENTATIONS]
            what = f"finetuning_and_inference {number} of {count}: {work}"
            each = compare(suite, what, cases, left_out)
            measured.setdefault(task, []).extend(each)
            group = f"{batch} x {length}"
            if task == "inference":
                panels.setdefault("inference, float32", []).extend(_milliseconds(each, group))
            else:
                panels.setdefault(f"training, {dtype}", []).extend(bars(each, group))
    tables = [
        comparison_table("Fine-tuning step", measured["classification"], OURS),
        comparison_table("Inference", measured["inference"], OURS, milliseconds=True),
    ]
    units = {"inference, float32": "milliseconds/batch"}
    drawn = [
        Panel(title, units.get(title, "sequences/s"), bars=each)
        for title, each in panels.items()
        if each
    ]
    both = [each for several in measured.values() for each in several]
    return Result("Fine-tuning and inference", both, OURS, tables, drawn, left_out)


def _milliseconds(measurements: list[Measurement], group: str) -> list[Bar]:
    drawn = []
    for each in measurements:
        factor = 1e3 * each.details["batch_size"]
        values = dataclasses.astuple(each.unit_seconds)
        value = Spread(*(factor * seconds for seconds in values))
        share = each.lower_bound_share
        drawn.append(
            Bar(group, each.implementation, value, value.median * share.median if share else None)
        )
    return drawn
