"""The value of shared parameters and small embeddings: ALBERT and BERT of the same shape."""

from __future__ import annotations

import dataclasses
import itertools

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import OURS, Case, Suite
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement, reference_of
from benchmarks.parts.pretraining_step import TINY, compare_each
from benchmarks.pictures import Bar
from benchmarks.reporting import Result, Table, decimals

ALBERT, BERT = "ALBERT", "BERT"
# Size -> speed of ALBERT relative to BERT of that size (arXiv 1909.11942, table 2), measured on
# many TPUs, where ALBERT also exchanges fewer gradients.
PAPER = {"base": 5.6 / 4.7, "large": 1.7}
SHAPES = ((8, 128), (2, 512))
PREDICTIONS = 20


# Both models are timed without dropout, like version 2 of ALBERT.
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TINY_BERT = dataclasses.replace(
    TINY, embedding_size=TINY.hidden_size, parameter_sharing="none", num_hidden_groups=None
)


def run(suite: Suite) -> Result:
    """Return sequences per second, parameters and memory of both with our own training step."""
    sizes = {
        size: {
            ALBERT: AlbertConfig.preset(size),
            BERT: AlbertConfig.preset(f"bert_{size}", **NO_DROPOUT),
        }
        for size in PAPER
    }
    shapes, dtypes = SHAPES, ("float32", "bfloat16")
    if suite.quick:
        sizes = {"tiny": {ALBERT: TINY, BERT: TINY_BERT}}
        shapes, dtypes = ((2, 32),), dtypes[:1]
    works = []
    for size, dtype, (batch, length) in itertools.product(sizes, dtypes, shapes):
        work = f"{size}, {batch} x {length}, {dtype}"
        works.append(
            [
                Case(
                    name,
                    OURS,
                    Workload("pretraining", config.to_dict(), batch, length, PREDICTIONS, dtype),
                    pretraining_flops(config, length, PREDICTIONS),
                    work,
                )
                for name, config in sizes[size].items()
            ]
        )
    measurements, panels, left_out = compare_each(suite, "sharing", works, _bars)
    for each in measurements:
        each.details["parameters"] = AlbertConfig(**each.details["config"]).parameter_count()
    rows = [_row(each, measurements) for each in measurements]
    heads = ("work", "model", "sequences/s", "speed of ALBERT / its speed", "in the paper")
    heads += ("parameters, millions", "peak memory, GiB")
    table = Table("ALBERT and BERT of the same shape: pretraining step", heads, rows)
    return Result("Value of sharing", measurements, ALBERT, [table], panels, left_out)


def _bars(measurements: list[Measurement], group: str) -> list[Bar]:
    return [Bar(group, each.implementation, each.rate) for each in measurements]


def _row(each: Measurement, measured: list[Measurement]) -> tuple[str, ...]:
    other, paper = reference_of(each, measured, ALBERT), PAPER.get(each.work.split(",")[0])
    return (
        each.work,
        each.implementation,
        format(each.rate, decimals(each.rate.median)),
        format(each.times_as_long(other), ".2f") if other else "",
        f"{paper:.1f}" if other and paper else "",
        f"{each.details['parameters'] / 1e6:.1f}",
        f"{each.peak_memory / 2**30:.2f}",
    )
