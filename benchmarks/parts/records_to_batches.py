"""From TFRecords to batches: examples per second on one core and on two, and what a TPU needs.

Files with static and with dynamic masks are read: the records alone, through a buffer and shuffled
as in training, the parsed records, and the batches of training. Each of them runs in a process of
its own that is limited to one core or two. The rate that a TPU needs follows from the least time of
the matrix products of --albert_config_file on --topology: no training on that slice consumes
examples faster.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import tempfile
import time
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.environment import quiet_import
from albert_tf.flops import pretraining_flops
from albert_tf.hardware.slices import parse_slice
from albert_tf.logs import counted
from benchmarks import corpus
from benchmarks.comparison import Suite
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, Table, decimals

PREDICTIONS = 20
# What is read, in order of how much is done to it.
STAGES = ("records", "through a buffer", "shuffled", "parsed", "static masks", "dynamic masks")
# The reference: no training is possible on records that are not parsed.
PARSED = "parsed"
_COUNT = 1000
_BATCH = 256
_SHARDS = 8
_WARM_UP_BATCHES = 50


class Rate(NamedTuple):
    """Examples a second.

    Attributes:
        wall: of time that passed.
        processor: of processor time, of all threads together.
    """

    wall: float
    processor: float


def run(suite: Suite) -> Result:
    """Return examples per second of every stage, and the number of cores that a TPU slice needs."""
    available = len(os.sched_getaffinity(0))
    cores = [count for count in ((1,) if suite.quick else (1, 2)) if count <= available]
    stages = (PARSED, "dynamic masks") if suite.quick else STAGES
    measured: dict[tuple[str, int], list[Rate]] = {}
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("records_to_batches: makes a corpus, a vocabulary and records")
        data = corpus.chosen(folder, suite)
        length = 64 if suite.quick else 512
        seconds = 0.2 if suite.quick else 5.0
        files = {
            masking: corpus.records(data, folder, length, PREDICTIONS, masking, _SHARDS)
            for masking in ("static", "dynamic")
        }

        def measure_once(stage: str, count: int) -> float:
            suite.progress.update(f"records_to_batches: {stage} on {count} core(s)")
            kind = "dynamic" if stage.startswith("dynamic") else "static"
            rate = measure_apart(count, stage, files[kind], length, seconds)
            measured.setdefault((stage, count), []).append(rate)
            return _COUNT / rate.wall

        ways = {
            (stage, count): lambda stage=stage, count=count: measure_once(stage, count)
            for count in cores
            for stage in stages
        }
        times = interleave(ways, suite.repeats)
    measurements = [
        Measurement(
            stage,
            counted(count, "core"),
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
    needed = examples_needed(suite, length)
    values = {
        "corpus": data.name,
        "topology": suite.topology,
        "albert_config_file": suite.albert_config_file,
        "examples_per_second_needed_at_most": needed,
    }
    rows = [
        (
            each.work,
            each.implementation,
            format(each.rate, decimals(each.rate.median)),
            format(each.lower_bound_share.median, ".2f"),
            f"{needed / each.rate.median * each.details['cores']:.2f}",
        )
        for each in measurements
    ]
    heads = ("what", "on", "examples/s", "of parsed", f"cores for {suite.topology}")
    title = (
        f"TFRecords of {length} tokens to batches; {suite.topology} and "
        f"{suite.albert_config_file} take at most {needed:,.0f} examples/s"
    )
    bars = [Bar(each.work, each.implementation, each.rate) for each in measurements]
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


def examples_needed(suite: Suite, length: int) -> float:
    """Return the examples/s that the slice takes at most, by the model's matrix products."""
    where = parse_slice(suite.topology)
    config = AlbertConfig.from_json_file(suite.albert_config_file)
    flops = pretraining_flops(config, length, PREDICTIONS)
    return where.replicas * where.data.peak_flops / flops


def hold_to(cores: int) -> None:
    """Hold this process, before it loads TensorFlow, to so many of its cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def measure(stage: str, files: list[str], length: int, least_seconds: float) -> Rate:
    """Return how fast a stage gives examples in this process."""
    with quiet_import():
        import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import dataset
    from albert_tf.engines.tensorflow.record_order import shuffled_records
    from albert_tf.input.features import pretraining_features, unmasked_features
    from albert_tf.input.manifest import dynamic_masks, find_manifests
    from albert_tf.input.record_batches import RecordStream
    from albert_tf.input.record_index import RecordIndex
    from albert_tf.input.streams import WHOLE

    masks = dynamic_masks(find_manifests(files), PREDICTIONS)
    features = unmasked_features(length) if masks else pretraining_features(length, PREDICTIONS)
    index = RecordIndex.create(files)
    stream = RecordStream(index, features, _BATCH, 1, masks, shuffle_buffer_size=10000)
    if stage == "shuffled":
        batches = shuffled_records(stream, WHOLE).prefetch(4)
    elif stage.endswith("masks"):
        batches = dataset(stream)
    else:
        names = tf.data.Dataset.from_tensor_slices(files)
        batches = names.interleave(tf.data.TFRecordDataset, cycle_length=_SHARDS)
        if stage == "through a buffer":
            batches = batches.shuffle(10000, seed=1)
        batches = batches.repeat().batch(_BATCH, drop_remainder=True)
        if stage == "parsed":
            fixed = {
                name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
                for name, feature in features.items()
            }
            batches = batches.map(lambda records: tf.io.parse_example(records, fixed))
        batches = batches.prefetch(4)
    iterator = iter(batches)
    for _ in range(_WARM_UP_BATCHES):
        next(iterator)
    examples, start, processor = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < least_seconds:
        next(iterator)
        examples += _BATCH
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    return Rate(examples / wall, examples / processor)


def measure_apart(cores: int, *arguments) -> Rate:
    """`measure` in a process of its own on some cores."""
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), hold_to, (cores,)
    ) as executor:
        return executor.submit(measure, *arguments).result()
