"""From TFRecords to batches: examples per second on one core and on two, and what a TPU needs.

Files with static and with dynamic masks are read: the records alone, the parsed records, and the
batches of training. The rate that a TPU needs follows from the least time of the model's matrix
products: no training on that slice consumes examples faster.
"""

import itertools
import os
import tempfile

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from albert_tf.hardware import parse_slice
from albert_tf.logs import counted
from benchmarks import corpus, tasks
from benchmarks.comparison import Suite
from benchmarks.interleaving import in_rounds
from benchmarks.measurements import Measurement, Result, Table, shown
from benchmarks.parts.pretraining_step import PREDICTIONS

# What is read, in order of how much is done to it, and how many examples of 512 tokens.
STAGES = {"records": 600_000, "parsed": 200_000, "static masks": 100_000, "dynamic masks": 100_000}
TPU = "v3:2x2"


def run(suite: Suite) -> Result:
    """Return examples per second of every stage, and the number of cores that a TPU slice needs."""
    available = len(os.sched_getaffinity(0))
    cores = [count for count in ((1,) if suite.quick else (1, 2)) if count <= available]
    stages = dict.fromkeys(("parsed", "dynamic masks"), 2560) if suite.quick else STAGES
    length = 64 if suite.quick else 512
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("records_to_batches: makes a corpus, a vocabulary and records")
        data = corpus.chosen(folder, suite)
        files = {
            masking: corpus.records(data, folder, length, PREDICTIONS, masking, num_shards=8)
            for masking in ("static", "dynamic")
        }
        times: dict[tuple[str, int], list[float]] = {}
        for _, (stage, count) in in_rounds(itertools.product(stages, cores), suite.repeats):
            suite.progress.update(f"records_to_batches: {stage} on {counted(count, 'core')}")
            timed = tasks.start(
                "read_batches",
                stage=stage,
                files=files["dynamic" if stage.startswith("dynamic") else "static"],
                length=length,
                predictions=PREDICTIONS,
                cores=count,
                examples=stages[stage],
            )
            times.setdefault((stage, count), []).append(timed["read"])
    flops = pretraining_flops(AlbertConfig.preset("base"), length, PREDICTIONS)
    where = parse_slice(TPU)
    needed = where.replicas * where.data.peak_flops / flops
    measurements, rows = [], []
    for (stage, count), seconds in times.items():
        on = counted(count, "core")
        measurements.append(Measurement(stage, on, seconds, stages[stage], "examples"))
        rate = measurements[-1].rate
        rows.append((stage, on, shown(rate), f"{needed / rate.median * count:.2f}"))
    title = (
        f"TFRecords of {length} tokens to batches, {data.name}; {TPU} with base takes at most "
        f"{needed:,.0f} examples/s"
    )
    table = Table(title, ("what", "on", "examples/s", f"cores for {TPU}"), rows)
    return Result("From TFRecords to batches", measurements, [table])
