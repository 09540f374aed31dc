"""From TFRecords to batches: examples per second on one core and on two."""

from __future__ import annotations

import os
import tempfile

from benchmarks import corpus
from benchmarks.comparison import Suite
from benchmarks.input_pipeline import (
    STAGES,
    Options,
    Rate,
    examples_needed,
    make_records,
    measure_apart,
)
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, Table, decimals

# The reference: no training is possible on records that are not parsed.
PARSED = "parsed"
_COUNT = 1000


def run(suite: Suite) -> Result:
    """Examples per second of every stage, and the number of cores that a TPU slice needs."""
    available = len(os.sched_getaffinity(0))
    cores = [count for count in ((1,) if suite.quick else (1, 2)) if count <= available]
    stages = (PARSED, "dynamic masks") if suite.quick else STAGES
    measured: dict[tuple[str, int], list[Rate]] = {}
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("records_to_batches: makes a corpus, a vocabulary and records")
        data = corpus.chosen(folder, suite.quick, suite.books)
        options = Options(
            books=data.books,
            spm_model_file=data.spm_model_file,
            max_seq_length=64 if suite.quick else 512,
            seconds=0.2 if suite.quick else 5.0,
        )
        files = make_records(options, folder)

        def measure(stage: str, count: int) -> float:
            suite.progress.update(f"records_to_batches: {stage} on {count} core(s)")
            kind = "dynamic" if stage.startswith("dynamic") else "static"
            rate = measure_apart(count, stage, files[kind], options)
            measured.setdefault((stage, count), []).append(rate)
            return _COUNT / rate.wall

        ways = {
            (stage, count): lambda stage=stage, count=count: measure(stage, count)
            for count in cores
            for stage in stages
        }
        times = interleave(ways, suite.repeats)
    measurements = [
        Measurement(
            stage,
            f"{count} core{'s' * (count > 1)}",
            seconds,
            _COUNT,
            "examples",
            times[PARSED, count],
            details={
                "cores": count,
                "processor_seconds": [_COUNT / rate.processor for rate in measured[stage, count]],
            },
        )
        for (stage, count), seconds in times.items()
    ]
    needed = examples_needed(options)
    values = {
        "corpus": data.name,
        "topology": options.topology,
        "albert_config_file": options.albert_config_file,
        "examples_per_second_needed_at_most": needed,
    }
    rows = [
        (
            each.work,
            each.way,
            format(each.rate, decimals(each.rate.median)),
            format(each.lower_bound_share.median, ".2f"),
            f"{needed / each.rate.median * each.details['cores']:.2f}",
        )
        for each in measurements
    ]
    heads = ("what", "on", "examples/s", "of parsed", f"cores for {options.topology}")
    title = (
        f"TFRecords of {options.max_seq_length} tokens to batches; {options.topology} and "
        f"{options.albert_config_file} take at most {needed:,.0f} examples/s"
    )
    bars = [Bar(each.work, each.way, each.rate) for each in measurements]
    bars.sort(key=lambda bar: stages.index(bar.group))
    panels = [Panel("from files in the page cache", "examples/s", bars=bars)]
    return Result(
        "From TFRecords to batches",
        measurements,
        "1 core",
        [Table(title, heads, rows)],
        panels,
        values=values,
    )
