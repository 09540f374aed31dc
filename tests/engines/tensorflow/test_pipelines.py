"""Input of the TensorFlow engine: several pipelines make the batches of one, in an order.

The order of training examples is as specified, entered anywhere, and read by parts.
"""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.records import shuffled_records
from albert_tf.input.examples import MemoryStream
from albert_tf.input.masking import derive_seeds
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.streams import WHOLE, Shard
from data_prep.tfrecords import frame
from tests.conftest import slow
from tests.support.batches import STATIC, write_files, write_numbers
from tests.support.batches import assert_same as assert_same_batch
from tests.support.tiny import LENGTH, batch, in_memory

BATCH, COUNT = 8, 29
# Input pipelines, and replicas that each of them feeds; the last have one row each. Those of
# records, with dynamic masks too, are compared one by one in test_record_batches.py.
SPLITS = [(1, 2), (2, 2), (4, 2)]


class Pod:
    """Several input pipelines in one client, as of a TPU pod: which dataset each of them gets."""

    def __init__(self, pipelines: int, replicas: int):
        self.contexts = [
            tf.distribute.InputContext(pipelines, number, pipelines * replicas)
            for number in range(pipelines)
        ]
        self.replicas = replicas

    def distribute_datasets_from_function(self, function):
        """Yield global batches, put together again of what the replicas get, in their order."""
        iterators = [function(context).as_numpy_iterator() for context in self.contexts]
        try:
            while True:
                parts = [next(each) for each in iterators for _ in range(self.replicas)]
                assert len({len(part["input_ids"]) for part in parts}) == 1
                yield {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        except StopIteration:
            for iterator in iterators:  # they end together
                assert next(iterator, None) is None


def spread(pipelines: int, replicas: int, stream, first_step: int = 0):
    """Return global batches, spread over so many pipelines and their replicas."""
    return TensorFlowEngine(TensorFlowDevices(Pod(pipelines, replicas))).iterate(stream, first_step)


def assert_same(found, expected) -> None:
    for one, other in zip(list(found), list(expected), strict=True):
        assert_same_batch(one, other)


@pytest.mark.integration
def test_examples_in_memory():
    features = in_memory(batch(COUNT))
    evaluation = MemoryStream(features, LENGTH, BATCH)
    training = MemoryStream(features, LENGTH, BATCH, seed=3)
    whole = list(dataset(evaluation).as_numpy_iterator())
    whole_training = list(dataset(training, 2).take(9).as_numpy_iterator())
    for split in SPLITS:
        assert_same(spread(*split, evaluation), whole)
        assert_same(itertools.islice(spread(*split, training, 2), 9), whole_training)


def test_a_pipeline_elsewhere_gets_the_examples_in_memory_without_python(monkeypatch):
    stream = MemoryStream(in_memory(batch(COUNT)), LENGTH, BATCH, pad_to_max_length=True)
    expected = dataset(stream, shard=Shard(1, 2), replicas=2).as_numpy_iterator()
    monkeypatch.delattr(tf, "numpy_function")
    found = dataset(stream, shard=Shard(1, 2), replicas=2, runs_python=False)
    assert_same(found.as_numpy_iterator(), expected)


@pytest.mark.integration
def test_training_has_no_end_and_no_batch_an_unknown_shape(tmp_path):
    index = RecordIndex.create(write_files(tmp_path))
    for shard, replicas in ((Shard(), 1), (Shard(1, 2), 2)):
        rows = BATCH // shard.count // replicas
        for buffer in (16, None):
            stream = RecordStream(index, STATIC, BATCH, 3, shuffle_buffer_size=buffer)
            batches = dataset(stream, 0, shard, replicas)
            if buffer:
                assert batches.cardinality() == tf.data.INFINITE_CARDINALITY
            assert batches.element_spec["input_ids"].shape == [rows, LENGTH]
            assert all(spec.shape.is_fully_defined() for spec in batches.element_spec.values())
    training = MemoryStream(in_memory(batch(COUNT)), LENGTH, BATCH, seed=3)
    for replicas in (1, 2):
        batches = dataset(training, first_step=5, replicas=replicas)
        assert batches.cardinality() == tf.data.INFINITE_CARDINALITY


SEED = 3
COUNTS = (0, 7, 70, 0, 130, 64, 65, 0)
EXAMPLES = sum(COUNTS)


def numbers_in(records) -> list[int]:
    return [int(record) for record in records]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Of files of uneven length, one of them empty."""
    folder, begin, paths = tmp_path_factory.mktemp("records"), 0, []
    for count in COUNTS:
        path = folder / f"{count}.tfrecord"
        paths.append(write_numbers(path, range(begin, begin + count)))
        begin += count
    return RecordIndex.create(paths)


def stream_of(index: RecordIndex, batch_size: int, buffer: int | None = None) -> RecordStream:
    return RecordStream(index, {}, batch_size, SEED, shuffle_buffer_size=buffer)


def order(index: RecordIndex, batch_size: int, shuffle_buffer_size: int, count: int) -> np.ndarray:
    """Return the numbers of the examples at the first positions, by the definition of the order."""
    lane_rows = batch_size // math.gcd(batch_size, 256)
    window = -(-2 * shuffle_buffer_size // batch_size) * batch_size
    begins = np.cumsum(index.records) - index.records
    found = np.empty(count + EXAMPLES, np.int64)
    for epoch in range(-(-count // EXAMPLES)):
        keys = derive_seeds(SEED, 2, epoch, np.arange(len(begins))) >> np.uint64(1)
        sequence = np.concatenate(
            [begins[block] + np.arange(index.records[block]) for block in np.argsort(keys)]
        )
        first = epoch * EXAMPLES
        for low in range(first // window * window, first + EXAMPLES, window):
            inside = np.arange(max(low, first), min(low + window, first + EXAMPLES))
            random = derive_seeds(SEED, 3, inside) >> np.uint64(9)
            by_lane = np.lexsort((random, inside % batch_size // lane_rows))
            found[inside[by_lane]] = sequence[inside - first]
    return found[:count]


@pytest.mark.integration
# Lanes of one row and of several; windows of one batch and of several epochs; an odd batch.
@pytest.mark.parametrize(
    ("batch_size", "shuffle_buffer_size", "pipelines"), [(8, 60, 2), *slow((60, 10000, 4))]
)
def test_any_step_can_be_the_first_for_any_number_of_pipelines(
    index, batch_size, shuffle_buffer_size, pipelines
):
    steps = 3 * EXAMPLES // batch_size + 2
    expected = order(index, batch_size, shuffle_buffer_size, steps * batch_size)
    expected = expected.reshape(steps, batch_size)
    stream = stream_of(index, batch_size, shuffle_buffer_size)
    parts = [(Shard(pipeline, pipelines), steps - 3) for pipeline in range(pipelines)]
    for shard, first in [(WHOLE, 0), *parts]:
        batches = shuffled_records(stream, shard, first).take(steps - first).as_numpy_iterator()
        rows = shard.rows(batch_size)
        for step, (positions, records, numbers) in enumerate(batches, first):
            row = np.arange(rows.start, rows.stop)
            assert positions.tolist() == (step * batch_size + row).tolist()
            assert numbers_in(records) == expected[step, rows].tolist() == numbers.tolist()
        assert step == steps - 1


@pytest.mark.integration
def test_a_pipeline_reads_its_own_part_only(tmp_path):
    """Everything but its half, and two blocks at its ends, may be damaged."""
    examples = 64 * 32
    content = bytearray()
    for number in range(examples):
        content += frame(b"%d" % number)
    (tmp_path / "whole.tfrecord").write_bytes(content)
    index = RecordIndex.create([str(tmp_path / "whole.tfrecord")])

    stream = stream_of(index, 256, examples)
    halves = [shuffled_records(stream, Shard(pipeline, 2)).take(8) for pipeline in range(2)]

    def read(pipeline):
        batches = halves[pipeline].as_numpy_iterator()
        return sum((numbers_in(records) for _, records, _ in batches), [])

    own = [read(pipeline) for pipeline in range(2)]
    assert sorted(own[0] + own[1]) == list(range(examples))
    blocks = {number // 64 for number in own[0]}
    assert len(blocks) <= 17
    for block in set(range(32)) - blocks:
        begin, size = index.offset[block], index.bytes[block]
        content[begin : begin + size] = b"\xff" * size
    (tmp_path / "whole.tfrecord").write_bytes(content)
    assert read(0) == own[0]
    with pytest.raises(tf.errors.DataLossError):
        read(1)


def test_examples_are_shuffled_as_by_a_buffer(tmp_path):
    """Neighbors in a file meet in a batch no more often; nothing is left of the order of files."""
    examples, batch_size, buffer = 64 * 200, 512, 1280
    path = write_numbers(tmp_path / "whole.tfrecord", range(examples))
    index = RecordIndex.create([path])
    batches = shuffled_records(stream_of(index, batch_size, buffer), WHOLE)
    places = np.empty(examples, np.int64)
    for positions, records, _ in batches.take(examples // batch_size).as_numpy_iterator():
        places[numbers_in(records)] = positions
    step = places // batch_size
    assert np.mean(step[1:] == step[:-1]) < batch_size / (2 * buffer)
    assert abs(np.corrcoef(np.arange(examples), places)[0, 1]) < 0.2
