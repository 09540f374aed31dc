"""How fast TFRecords become batches, on one core and on two, and how many cores a TPU needs.

    python benchmarks/input_pipeline.py --books=DIR --spm_model_file=30k-clean.model

Creates files with static and with dynamic masks from the books and reads them: the records alone,
shuffled by a buffer and as in training, the parsed records, and the batches of training. Each of
them runs in separate processes that are limited to one core or two, in --repeats interleaved
rounds; the medians are printed. The rate that a TPU needs follows from the least time of the matrix
products of --albert_config_file on --topology: no training on that slice consumes examples faster.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import glob
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from albert_tf.hardware.slices import parse_slice
from albert_tf.options import command, option
from albert_tf.quiet import quiet_import

_BATCH = 256
_SHARDS = 8
_WARM_UP_BATCHES = 50
# What is read, in order of how much is done to it.
STAGES = ("records", "through a buffer", "shuffled", "parsed", "static masks", "dynamic masks")


@dataclasses.dataclass(frozen=True)
class Options:
    books: str = option(help="Folder of .txt files.")
    spm_model_file: str = option(help="SentencePiece model.")
    max_seq_length: int = option(512, "Length of the examples.")
    max_predictions_per_seq: int = option(20, "Masked tokens of an example.")
    albert_config_file: str = option("configs/model/base_v2.json", "The model to be fed.")
    topology: str = option("v3:2x2", "The TPU slice to be fed.")
    seconds: float = option(10.0, "Length of a measurement.")
    repeats: int = option(3, "Measurements of everything.")


class Rate(NamedTuple):
    """Examples a second.

    Attributes:
        wall: of time that passed.
        processor: of processor time, of all threads together.
    """

    wall: float
    processor: float


def make_records(options: Options, folder: str) -> dict[str, list[str]]:
    """TFRecord files by what `--masking` they were made with."""
    text = os.path.join(folder, "corpus.txt")
    _run("extract_corpus", "--format=books", f"--input_file={options.books}",
         f"--output_file={text}")  # fmt: skip
    files = {}
    for masking in ("static", "dynamic"):
        output = os.path.join(folder, masking, "train.tfrecord")
        os.mkdir(os.path.dirname(output))
        _run(
            "create_pretraining_data",
            f"--input_file={text}",
            f"--output_file={output}",
            f"--num_shards={_SHARDS}",
            f"--spm_model_file={options.spm_model_file}",
            f"--max_seq_length={options.max_seq_length}",
            f"--max_predictions_per_seq={options.max_predictions_per_seq}",
            f"--masking={masking}",
            "--dupe_factor=1",
        )
        files[masking] = sorted(glob.glob(f"{output}-*"))
    return files


def _run(module: str, *flags: str) -> None:
    words = [sys.executable, "-m", f"data_prep.{module}", *flags]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def hold_to(cores: int) -> None:
    """Holds this process, before it loads TensorFlow, to so many of its cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def measure(stage: str, files: list[str], options: Options) -> Rate:
    """How fast a stage gives examples in this process."""
    with quiet_import():
        import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import dataset
    from albert_tf.engines.tensorflow.record_order import shuffled_records
    from albert_tf.input.features import pretraining_features, unmasked_features
    from albert_tf.input.manifest import dynamic_masks, find_manifests
    from albert_tf.input.record_batches import RecordStream
    from albert_tf.input.record_index import RecordIndex
    from albert_tf.input.streams import WHOLE

    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    masks = dynamic_masks(find_manifests(files), predictions)
    features = unmasked_features(length) if masks else pretraining_features(length, predictions)
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
    while time.perf_counter() - start < options.seconds:
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


def print_rates(measured: dict[tuple[str, int], list[Rate]], cores: list[int]) -> None:
    """A line for each stage."""
    heads = "".join(f"{f'{count} core(s)':>12}{'a core s':>10}" for count in cores)
    print(f"{'examples a second':<20}{heads}{'of parsed':>11}")
    for stage in STAGES:
        line = f"{stage:<20}"
        for count in cores:
            rates = measured[stage, count]
            line += f"{statistics.median(rate.wall for rate in rates):>12,.0f}"
            line += f"{statistics.median(rate.processor for rate in rates):>10,.0f}"
        # Of the same round and on one core, so that what else runs here changes it least.
        ratios = [
            mine.processor / lower_bound.processor
            for mine, lower_bound in zip(measured[stage, 1], measured["parsed", 1], strict=True)
        ]
        print(f"{line}{statistics.median(ratios):>11.2f}")


def examples_needed(options: Options) -> float:
    """Examples a second that the slice can take at most, by the matrix products of the model."""
    config = AlbertConfig.from_json_file(options.albert_config_file)
    where = parse_slice(options.topology)
    flops = pretraining_flops(config, options.max_seq_length, options.max_predictions_per_seq)
    return where.replicas * where.data.peak_flops / flops


def print_need(options: Options, measured: dict[tuple[str, int], list[Rate]]) -> None:
    """How many cores feed the slice."""
    where, needed = parse_slice(options.topology), examples_needed(options)
    peak = where.replicas * where.data.peak_flops
    print(
        f"{options.albert_config_file} on {where.name} ({where.accelerator}) takes at most "
        f"{needed:,.0f} examples a second: {peak / needed / 1e12:.3f} TFLOP each, "
        f"{peak / 1e12:.0f} TFLOP/s at the peak"
    )
    for stage in ("static masks", "dynamic masks"):
        rate = statistics.median(rate.processor for rate in measured[stage, 1])
        print(f"cores for {stage}: {needed / rate:.2f}")


def run(options: Options) -> None:
    there = len(os.sched_getaffinity(0))
    cores = [count for count in (1, 2) if count <= there]
    measured: dict[tuple[str, int], list[Rate]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = make_records(options, folder)
        for _ in range(options.repeats):
            for count in cores:
                for stage in STAGES:
                    kind = "dynamic" if stage.startswith("dynamic") else "static"
                    rate = measure_apart(count, stage, files[kind], options)
                    measured.setdefault((stage, count), []).append(rate)
    print_rates(measured, cores)
    print_need(options, measured)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
