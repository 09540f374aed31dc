"""What tests of batches share: files, streams, and comparison with the TensorFlow engine."""

import pathlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from albert_tf.input.features import pretraining_features
from albert_tf.input.streams import Shard
from data_prep.tfrecords import frame, write_records
from tests.support.tiny import LENGTH, PREDICTIONS, batch

COUNTS = (0, 7, 0, 130, 64, 0)
EXAMPLES = sum(COUNTS)
STATIC = pretraining_features(LENGTH, PREDICTIONS)
# Pipelines, and the replicas that each of them feeds.
PIPELINES = [(Shard(), 1), (Shard(1, 2), 2), (Shard(3, 4), 1)]


class ListStream:
    """A stream of given global batches, for one pipeline; also its source."""

    def __init__(self, batches: list[dict[str, np.ndarray]]):
        self._batches = batches
        self.element_spec = {name: (v.shape, v.dtype) for name, v in batches[0].items()}

    def batches(self, shard: Shard) -> "ListStream":
        assert shard == Shard()
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        return self._batches[step]


def write_files(folder) -> list[str]:
    examples, begin, paths = batch(EXAMPLES, seed=5), 0, []
    for count in COUNTS:
        paths.append(str(folder / f"{count}.tfrecord"))
        with open(paths[-1], "wb") as file:
            write_records(
                file, {name: value[begin : begin + count] for name, value in examples.items()}
            )
        begin += count
    return paths


def write_numbers(path: pathlib.Path, numbers: Iterable[int]) -> str:
    """Write records that contain their number, of different lengths."""
    path.write_bytes(b"".join(frame(b"%d" % n + b" " * (n % 50)) for n in numbers))
    return str(path)


def assert_same(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert found[name].dtype == value.dtype


def assert_threads_share(stream, shard: Shard) -> None:
    """Compare what several threads get of one source with what one thread gets of another."""
    alone, shared = stream.batches(shard), stream.batches(shard)
    steps = np.random.default_rng(0).permutation(100).tolist()
    with ThreadPoolExecutor(8) as threads:
        for step, found in zip(steps, threads.map(shared.__getitem__, steps), strict=True):
            assert_same(found, alone[step])


def assert_tensorflow_has(stream, shard: Shard, replicas: int, first: int, last: int) -> None:
    """Compare the batches that TensorFlow feeds to replicas with those of the stream's source."""
    from albert_tf.engines.tensorflow.batches import dataset

    source = stream.batches(shard)
    iterator = dataset(stream, first, shard, replicas).as_numpy_iterator()
    for step in range(first, last):
        parts = [next(iterator) for _ in range(replicas)]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert_same(joined, source[step])
    assert next(iterator, None) is None or last < len(source)
