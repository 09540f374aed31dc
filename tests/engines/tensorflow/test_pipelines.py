"""Several input pipelines: together they make the batches of one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.batches import memory_evaluation_batches, memory_training_batches
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.records import record_evaluation_batches, record_training_batches
from albert_tf.input.features import pretraining_features, unmasked_features
from albert_tf.input.manifest import DynamicMasks
from albert_tf.input.masking import Masking
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.share import WHOLE, Share
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch, in_memory, write_records

BATCH, COUNT = 8, 29
STATIC = (pretraining_features(LENGTH, PREDICTIONS), None)
DYNAMIC = (
    unmasked_features(LENGTH),
    DynamicMasks(Masking(5), (2, 3), 4, np.arange(5, VOCAB, dtype=np.int32)),
)
FORMS = pytest.mark.parametrize(
    "form",
    [
        pytest.param(STATIC, id="static"),
        pytest.param(DYNAMIC, id="dynamic", marks=pytest.mark.slow),
    ],
)
# Input pipelines, and replicas that each of them feeds; the last have one row each.
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
        """Global batches, put together again of what the replicas get, in their order."""
        iterators = [function(context).as_numpy_iterator() for context in self.contexts]
        try:
            while True:
                parts = [next(each) for each in iterators for _ in range(self.replicas)]
                assert len({len(part["input_ids"]) for part in parts}) == 1
                yield {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        except StopIteration:
            for iterator in iterators:  # they end together
                assert next(iterator, None) is None


def spread(pipelines: int, replicas: int, batches):
    """Global batches, as the engine spreads them over so many pipelines and their replicas."""
    return TensorFlowEngine(Pod(pipelines, replicas)).iterate(batches)


def assert_same(found, expected) -> None:
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_array_equal(one[name], value, err_msg=name)
            assert one[name].dtype == value.dtype


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    examples = batch(COUNT, seed=5)
    paths = [str(folder / f"{part}.tfrecord") for part in range(2)]
    write_records(paths[0], {name: value[:11] for name, value in examples.items()})
    write_records(paths[1], {name: value[11:] for name, value in examples.items()})
    return RecordIndex.create(paths)


@pytest.mark.integration
@FORMS
def test_training_over_epochs_and_restarts(index, form):
    features, masks = form

    def read(share=WHOLE, first_step=0):
        return record_training_batches(index, features, BATCH, 3, 16, first_step, masks, share)

    whole = list(read().take(11).as_numpy_iterator())
    for pipelines, replicas in SPLITS:
        parts = spread(
            pipelines,
            replicas,
            lambda share, replicas=replicas: read(share, 6).take((11 - 6) * replicas),
        )
        assert_same(parts, whole[6:])


@pytest.mark.integration
@FORMS
def test_evaluation_to_the_last_example(index, form):
    features, masks = form
    whole = record_evaluation_batches(index, features, BATCH, 3, masks).as_numpy_iterator()
    whole = list(whole)
    assert whole[-1]["is_real_example"].tolist() == [1] * 5 + [0] * 3
    for pipelines, replicas in SPLITS:
        parts = spread(
            pipelines,
            replicas,
            lambda share: record_evaluation_batches(index, features, BATCH, 3, masks, share),
        )
        assert_same(parts, whole)


@pytest.mark.integration
def test_examples_in_memory():
    features = in_memory(batch(COUNT))

    def read(share=WHOLE):
        return memory_evaluation_batches(features, LENGTH, BATCH, share=share)

    def train(share=WHOLE):
        return memory_training_batches(features, LENGTH, BATCH, seed=3, first_step=2, share=share)

    whole = list(read().as_numpy_iterator())
    whole_training = list(train().take(9).as_numpy_iterator())
    for pipelines, replicas in SPLITS:
        assert_same(spread(pipelines, replicas, read), whole)
        assert_same(itertools.islice(spread(pipelines, replicas, train), 9), whole_training)


@pytest.mark.integration
@FORMS
def test_training_has_no_end_and_no_batch_an_unknown_shape(index, form):
    features, masks = form
    for share, rows in ((Share(), BATCH), (Share(1, 2, 2), BATCH // 4)):
        batches = record_training_batches(index, features, BATCH, 3, masks=masks, share=share)
        assert batches.cardinality() == tf.data.INFINITE_CARDINALITY
        for dataset in (
            batches,
            record_evaluation_batches(index, features, BATCH, 3, masks, share),
        ):
            assert dataset.element_spec["input_ids"].shape == [rows, LENGTH]
            assert all(spec.shape.is_fully_defined() for spec in dataset.element_spec.values())
