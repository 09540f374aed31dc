"""What the order of training examples costs: resuming at any step, on one of many hosts.

    python -m benchmarks.record_order

Makes a TFRecord file of random examples with static masks and links it under the names of
--num_files files, which together have --examples examples, with their index. Then prints:

- the time from nothing but names of files to the first batch, at each of --steps, in a process of
  its own that has loaded TensorFlow;
- the bytes that one of --hosts hosts reads for the batches of a window, compared with the bytes of
  the records that it uses;
- how well examples are shuffled, compared with `tf.data.Dataset.shuffle` over shuffled files:
  how often neighbors in a file meet in a batch, and the correlation of the position in a file with
  the position in the epoch.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from albert_tf.environment import quiet_import
from albert_tf.input.features import pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex, index_records, write_indexes
from albert_tf.options import command, option
from data_prep.tfrecords import frame, write_records

_SEED, _VOCAB = 12345, 30000
_SHUFFLED_FILES, _SHUFFLED_EXAMPLES = 16, 160_000


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    examples: int = option(8_000_000, "Examples of an epoch.")
    num_files: int = option(64, "Number of files.")
    max_seq_length: int = option(512, "Tokens of an example.")
    max_predictions_per_seq: int = option(20, "Masked tokens of an example.")
    train_batch_size: int = option(4096, "Examples in a batch.")
    shuffle_buffer_size: int = option(10000, "As of training.")
    steps: tuple[str, ...] = option(("10", "100000", "10000000"), "Steps to resume at.")
    hosts: tuple[str, ...] = option(("1", "8", "64"), "Numbers of hosts.")
    repeats: int = option(3, "Measurements of the time to the first batch.")


def make_files(options: Options, folder: str) -> list[str]:
    """Return the files of an epoch, one file under many names."""
    random = np.random.default_rng(_SEED)
    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    count = options.examples // options.num_files
    names = [
        os.path.join(folder, f"train.tfrecord-{number:05d}-of-{options.num_files:05d}")
        for number in range(options.num_files)
    ]
    with open(names[0], "wb") as file:
        for begin in range(0, count, 1000):
            rows = min(1000, count - begin)
            batch = {}
            for name, feature in features.items():
                high = _VOCAB if name in ("input_ids", "masked_lm_ids") else 2
                values = random.integers(0, high, (rows, *feature.shape), dtype=np.int32)
                batch[name] = values.astype(feature.dtype)
            write_records(file, batch)
    for name in names[1:]:
        os.link(names[0], name)
    write_indexes(names, [index_records(names[0])] * len(names))
    return names


def seconds_to_first_batch(options: Options, files: list[str], step: int) -> float:
    """Return time to find the index of the files and to make the batch of a step."""
    with quiet_import():
        import tensorflow as tf  # noqa: F401

    from albert_tf.engines.tensorflow.batches import dataset

    start = time.perf_counter()
    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    index = RecordIndex.create(files)
    stream = RecordStream(
        index, features, options.train_batch_size, _SEED, None, options.shuffle_buffer_size
    )
    next(iter(dataset(stream, step)))
    return time.perf_counter() - start


def read_share(options: Options, files: list[str], hosts: int) -> tuple[float, float]:
    """Return bytes that the last of some hosts reads for three windows.

    Returns:
        GB, and the ratio to the bytes of the records that it uses.
    """
    with quiet_import():
        import tensorflow as tf  # noqa: F401

    from albert_tf.engines.tensorflow.record_order import shuffled_records
    from albert_tf.input.streams import Shard

    batch, buffer = options.train_batch_size, options.shuffle_buffer_size
    index = RecordIndex.create(files)
    stream = RecordStream(index, {}, batch, _SEED, shuffle_buffer_size=buffer)
    records = shuffled_records(stream, Shard(hosts - 1, hosts))
    before, used = _bytes_read(), 0
    # Windows are read one ahead of what is used.
    for _, values in records.take(3 * -(-2 * buffer // batch)).as_numpy_iterator():
        used += sum(len(frame(value)) for value in values)
    read = _bytes_read() - before
    return read / 1e9, read / used


def _bytes_read() -> int:
    with open("/proc/self/io") as file:
        return int(next(line for line in file if line.startswith("rchar")).split()[1])


def print_shuffling(options: Options, folder: str) -> None:
    """How examples are shuffled, for several batch sizes."""
    with quiet_import():
        import tensorflow as tf

    from albert_tf.engines.tensorflow.record_order import shuffled_records
    from albert_tf.input.streams import WHOLE

    count, per_file = _SHUFFLED_EXAMPLES, _SHUFFLED_EXAMPLES // _SHUFFLED_FILES
    files = [os.path.join(folder, f"{number}.tfrecord") for number in range(_SHUFFLED_FILES)]
    for number, path in enumerate(files):
        with open(path, "wb") as file:
            begin = number * per_file
            file.write(b"".join(frame(b"%d" % n) for n in range(begin, begin + per_file)))
    buffer = options.shuffle_buffer_size
    names = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=1)
    buffered = names.interleave(tf.data.TFRecordDataset, cycle_length=_SHUFFLED_FILES)
    buffered = buffered.shuffle(buffer, seed=2).batch(1000)
    index = RecordIndex.create(files)
    print(f"{'':<40}{'neighbors in a batch':>22}{'correlation in a file':>24}")
    for batch in (32, 256, options.train_batch_size):
        stream = RecordStream(index, {}, batch, _SEED, shuffle_buffer_size=buffer)
        whole = shuffled_records(stream, WHOLE).take(-(-count // batch))
        for name, records in (
            (f"shuffle buffer, batches of {batch}", buffered),
            (f"albert_tf, batches of {batch}", whole.map(lambda _, values, numbers: values)),
        ):
            order = np.concatenate([part.astype(np.int64) for part in records.as_numpy_iterator()])
            places = np.empty(count, np.int64)
            places[order[:count]] = np.arange(count)
            steps = places.reshape(_SHUFFLED_FILES, per_file) // batch
            together = np.mean(steps[:, 1:] == steps[:, :-1])
            correlation = np.mean(
                [
                    np.corrcoef(np.arange(per_file), rows)[0, 1]
                    for rows in places.reshape(_SHUFFLED_FILES, per_file)
                ]
            )
            print(f"{name:<40}{together:>22.5f}{correlation:>24.3f}", flush=True)


def run(options: Options) -> None:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(options, folder)
        size = sum(map(os.path.getsize, files)) / 1e9
        print(f"{options.examples:,} examples in {len(files)} files, {size:.1f} GB", flush=True)

        def apart(function, *arguments):
            with ProcessPoolExecutor(1, context) as process:
                return process.submit(function, options, files, *arguments).result()

        start = time.perf_counter()
        index_records(files[0])
        seconds = (time.perf_counter() - start) * len(files)
        print(f"index of all files, one after the other: {seconds:.1f} s", flush=True)
        for step in map(int, options.steps):
            times = [apart(seconds_to_first_batch, step) for _ in range(options.repeats)]
            listed = ", ".join(f"{seconds:.2f}" for seconds in times)
            print(f"first batch at step {step:,}: {listed} s", flush=True)
        for hosts in map(int, options.hosts):
            read, ratio = apart(read_share, hosts)
            print(
                f"one of {hosts} hosts: {read:.3f} GB, {ratio:.2f} times what it uses", flush=True
            )
        print_shuffling(options, folder)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
