"""Several input pipelines: together they make the batches of one."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.input.examples import MemoryStream
from albert_tf.input.features import pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.streams import Shard
from tests.support.batches import assert_same as assert_same_batch
from tests.support.tiny import LENGTH, PREDICTIONS, batch, in_memory, write_records

BATCH, COUNT = 8, 29
STATIC = {"features": pretraining_features(LENGTH, PREDICTIONS)}
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


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    examples = batch(COUNT, seed=5)
    paths = [str(folder / f"{part}.tfrecord") for part in range(2)]
    write_records(paths[0], {name: value[:11] for name, value in examples.items()})
    write_records(paths[1], {name: value[11:] for name, value in examples.items()})
    return RecordIndex.create(paths)


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
def test_training_has_no_end_and_no_batch_an_unknown_shape(index):
    for shard, replicas in ((Shard(), 1), (Shard(1, 2), 2)):
        rows = BATCH // shard.count // replicas
        for buffer in (16, None):
            stream = RecordStream(
                index, **STATIC, batch_size=BATCH, seed=3, shuffle_buffer_size=buffer
            )
            batches = dataset(stream, 0, shard, replicas)
            if buffer:
                assert batches.cardinality() == tf.data.INFINITE_CARDINALITY
            assert batches.element_spec["input_ids"].shape == [rows, LENGTH]
            assert all(spec.shape.is_fully_defined() for spec in batches.element_spec.values())
    training = MemoryStream(in_memory(batch(COUNT)), LENGTH, BATCH, seed=3)
    for replicas in (1, 2):
        batches = dataset(training, first_step=5, replicas=replicas)
        assert batches.cardinality() == tf.data.INFINITE_CARDINALITY
