"""From TFRecords to batches: examples per second on one core and on two, and what a TPU needs.

Files with static and with dynamic masks are read: the records alone, the parsed records, and the
batches of training. The rate that a TPU needs follows from the least time of the matrix products of
--albert_config_file on --topology: no training on that slice consumes examples faster.
"""

import functools
import os
import tempfile

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from albert_tf.hardware import parse_slice
from albert_tf.logs import counted
from benchmarks import corpus, tasks
from benchmarks.comparison import Suite
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement, Result, Table, shown

PREDICTIONS = 20
# What is read, in order of how much is done to it, and how many examples of 512 tokens.
STAGES = {"records": 600_000, "parsed": 200_000, "static masks": 100_000, "dynamic masks": 100_000}


def run(suite: Suite) -> Result:
    """Return examples per second of every stage, and the number of cores that a TPU slice needs."""
    available = len(os.sched_getaffinity(0))
    cores = [count for count in ((1,) if suite.quick else (1, 2)) if count <= available]
    stages = ("parsed", "dynamic masks") if suite.quick else tuple(STAGES)
    length = 64 if suite.quick else 512
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("records_to_batches: makes a corpus, a vocabulary and records")
        data = corpus.chosen(folder, suite)
        files = {
            masking: corpus.records(data, folder, length, PREDICTIONS, masking, num_shards=8)
            for masking in ("static", "dynamic")
        }

        def measure(stage: str, count: int) -> float:
            suite.progress.update(f"records_to_batches: {stage} on {counted(count, 'core')}")
            timed = tasks.start(
                "read_batches",
                stage=stage,
                files=files["dynamic" if stage.startswith("dynamic") else "static"],
                length=length,
                predictions=PREDICTIONS,
                cores=count,
                examples=_examples(suite, stage),
            )
            return timed["read"]

        keys = [(stage, count) for count in cores for stage in stages]
        ways = {key: functools.partial(measure, *key) for key in keys}
        times = interleave(ways, suite.repeats)
    measurements = [
        Measurement(
            stage,
            counted(count, "core"),
            seconds,
            _examples(suite, stage),
            "examples",
            details={"cores": count},
        )
        for (stage, count), seconds in times.items()
    ]
    needed = examples_needed(suite, length)
    rows = [
        (
            each.work,
            each.implementation,
            shown(each.rate),
            f"{needed / each.rate.median * each.details['cores']:.2f}",
        )
        for each in measurements
    ]
    title = (
        f"TFRecords of {length} tokens to batches; {suite.options.topology} and "
        f"{suite.options.albert_config_file} take at most {needed:,.0f} examples/s"
    )
    table = Table(title, ("what", "on", "examples/s", f"cores for {suite.options.topology}"), rows)
    values = {
        "corpus": data.name,
        "topology": suite.options.topology,
        "albert_config_file": suite.options.albert_config_file,
        "examples_per_second_needed_at_most": needed,
    }
    return Result("From TFRecords to batches", measurements, "1 core", [table], values=values)


def _examples(suite: Suite, stage: str) -> int:
    return 2560 if suite.quick else STAGES[stage]


def examples_needed(suite: Suite, length: int) -> float:
    """Return the examples/s that the slice takes at most, by the model's matrix products."""
    where = parse_slice(suite.options.topology)
    config = AlbertConfig.from_json_file(suite.options.albert_config_file)
    flops = pretraining_flops(config, length, PREDICTIONS)
    return where.replicas * where.data.peak_flops / flops
