"""Files of examples: the shuffle between passes, and TFRecords with the bytes of TensorFlow."""

from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from albert_tf.errors import InputError
from albert_tf.input.features import Feature, pretraining_features
from albert_tf.input.masking import derive_seeds
from data_prep.runs import make_run, merge, read_bucket, token_dtype, write_run
from data_prep.segments import Pairs
from data_prep.tfrecords import read_examples, serialize, write_records
from tests.conftest import random_inputs
from tests.support import references


def block(count: int, first: int, seed: int = 0, copies: int = 1):
    """Return pairs of 1 to 6 tokens; every token is the index of its pair."""
    random = np.random.default_rng(seed + first)
    sizes = random.integers(1, 4, (count, 2))
    ids = np.repeat(np.arange(first, first + count), sizes.sum(1)).astype(np.uint16)
    ends = np.cumsum(sizes.sum(1))
    begins, middles = ends - sizes.sum(1), ends - sizes[:, 1]
    spans = np.stack([begins, middles, middles, ends], 1)
    pairs = [
        Pairs(
            spans,
            random.random(count) < 0.5,
            derive_seeds(copy, np.arange(first, first + count)),
            np.arange(count) // 5,
            0,
            0,
        )
        for copy in range(copies)
    ]
    documents = derive_seeds(9, first, np.arange(count // 5 + 1))
    return ids, pairs, documents


def shuffled(blocks, folder, buckets: int) -> list[int]:
    """Return the numbers of all pairs, in the order of the data set."""
    paths = []
    for number, (ids, pairs, documents) in enumerate(blocks):
        paths.append(str(folder / f"{number}.run"))
        run = make_run(ids, pairs, documents, 7, buckets)
        write_run(paths[-1], run)
        for bucket in range(buckets):  # a run in memory is what it is in its file
            stored = read_bucket(paths[-1], bucket, np.uint16)
            assert (run.bucket(bucket).examples == stored.examples).all()
            assert (run.bucket(bucket).tokens == stored.tokens).all()
    order = []
    for number in range(buckets):
        parts = [read_bucket(path, number, np.uint16) for path in paths]
        bucket, places = merge(parts, 7)
        sizes = (bucket.examples["first"] + bucket.examples["second"]).astype(np.int64)
        ends = np.cumsum(sizes)
        assert ends[-1] == len(bucket.tokens) if len(ends) else not len(bucket.tokens)
        for place in places:
            (pair,) = set(bucket.tokens[ends[place] - sizes[place] : ends[place]].tolist())
            order.append(pair)
    return order


@random_inputs(20)
@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=4), buckets=st.integers(1, 9))
def test_every_pair_occurs_once_in_an_order_that_depends_on_seeds_only(
    tmp_path_factory, counts, buckets
):
    firsts = np.cumsum([0, *counts])
    blocks = [block(count, int(first)) for count, first in zip(counts, firsts, strict=False)]
    order = shuffled(blocks, tmp_path_factory.mktemp("runs"), buckets)
    assert sorted(order) == list(range(sum(counts)))
    # Neither the number of buckets nor that of the blocks decides the order.
    assert order == shuffled(blocks, tmp_path_factory.mktemp("runs"), 1)


def test_copies_are_shuffled_together(tmp_path):
    order = shuffled([block(500, 0, copies=3)], tmp_path, 4)
    assert np.bincount(order).tolist() == [3] * 500
    assert len(set(order[:500])) < 400


def test_the_order_is_random(tmp_path):
    order = np.array(shuffled([block(1000, 0), block(1000, 1000)], tmp_path, 8))
    assert abs(stats.spearmanr(order, np.arange(2000)).statistic) < 0.07
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.07


def test_tokens_take_two_bytes_if_possible():
    assert token_dtype(30000) == token_dtype(2**16) == np.uint16
    assert token_dtype(2**16 + 1) == np.uint32


FEATURES = {"ids": Feature((3,), "int64"), "weights": Feature((2,), "float32")}


def batch(size: int) -> dict[str, np.ndarray]:
    return {
        "ids": np.arange(size * 3).reshape(size, 3),
        "weights": np.linspace(0, 1, size * 2, dtype=np.float32).reshape(size, 2),
    }


def by_tensorflow(columns: Mapping[str, np.ndarray], row: int) -> bytes:
    """Return the oracle: the message as TensorFlow's own classes serialize it."""
    example = tf.train.Example()
    for name, values in columns.items():
        feature = example.features.feature[name]
        target = feature.float_list if values.dtype.kind == "f" else feature.int64_list
        target.value.extend(values[row].reshape(-1).tolist())
    return example.SerializeToString(deterministic=True)


INTEGERS = arrays.arrays(
    np.int32,
    st.tuples(st.just(2), st.integers(1, 300)),
    elements=st.integers(0, 2**31 - 1) | st.sampled_from([0, 1, 127, 128, 16383, 16384]),
)
FLOATS = arrays.arrays(
    np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=st.floats(width=32)
)


# No name begins with another: protobuf's implementations do not agree on the order of such names.
NAMES = st.text("abcxyz_", min_size=4, max_size=4) | st.text("ABC", min_size=200, max_size=200)


@pytest.mark.integration
@given(st.dictionaries(NAMES, INTEGERS | FLOATS, min_size=1, max_size=5))
def test_the_bytes_are_those_of_tensorflow(columns):
    assert list(serialize(columns)) == [by_tensorflow(columns, row) for row in range(2)]


def test_the_file_is_that_of_tensorflow(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with open(ours, "wb") as file:
        write_records(file, batch(7))
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for row in range(7):
            writer.write(by_tensorflow(batch(7), row))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("name", references.NAMES)
def test_reads_the_file_of_the_original(name, shared):
    reference = references.records_reference(name, shared)
    path = str(reference.records)
    records = tf.data.TFRecordDataset(path).as_numpy_iterator()
    examples = [tf.train.Example.FromString(record) for record in records]
    assert len(examples) == reference.examples
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    read = read_examples(path, features)
    assert set(read) == set(examples[0].features.feature)
    for row, example in enumerate(examples):
        for name, feature in example.features.feature.items():
            kind = feature.WhichOneof("kind")
            assert read[name][row].tolist() == list(getattr(feature, kind).value), name


def test_other_lengths_and_damaged_files_are_reported(tmp_path):
    path = tmp_path / "a.tfrecord"
    with open(path, "wb") as file:
        write_records(file, batch(3))
    with pytest.raises(InputError, match="a.tfrecord.*ids") as error:
        read_examples(str(path), FEATURES | {"ids": Feature((4,), "int64")})
    assert "\n" not in str(error.value)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"a\.tfrecord"):
        read_examples(str(path), FEATURES)
    with pytest.raises(InputError, match=r"none\.tfrecord"):
        read_examples(str(tmp_path / "none.tfrecord"), FEATURES)
