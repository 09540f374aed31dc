"""Files that both projects can read, with the bytes that TensorFlow writes."""

from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from albert_tf.errors import InputError
from albert_tf.input.features import Feature, pretraining_features
from data_prep.tfrecords import read_examples, serialize, write_records
from tests.support import references

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
        assert write_records(file, batch(7)) == 7
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for row in range(7):
            writer.write(by_tensorflow(batch(7), row))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.fixture(params=references.NAMES)
def original(request, shared) -> tuple[str, dict[str, Feature], list[tf.train.Example]]:
    """Return a file of the original's, its features, and its examples as TensorFlow parses them."""
    reference = references.records_reference(request.param, shared)
    path = str(reference.records)
    records = tf.data.TFRecordDataset(path).as_numpy_iterator()
    examples = [tf.train.Example.FromString(record) for record in records]
    assert len(examples) == reference.examples
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    return path, features, examples


def test_reads_the_file_of_the_original(original):
    path, features, examples = original
    read = read_examples(path, features)
    assert set(read) == set(examples[0].features.feature)
    for row, example in enumerate(examples):
        for name, feature in example.features.feature.items():
            kind = feature.WhichOneof("kind")
            assert read[name][row].tolist() == list(getattr(feature, kind).value), name


def test_the_original_reads_ours(original):
    """The examples of the original, written again: the same features of the same kinds."""
    path, features, examples = original
    for ours, example in zip(serialize(read_examples(path, features)), examples, strict=True):
        assert tf.train.Example.FromString(ours) == example


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
