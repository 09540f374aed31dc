"""Files that either side can read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.input.features import Feature, pretraining_features
from data_prep.records import RecordWriter, read_examples, serialize

FEATURES = {"ids": Feature((3,), "int64"), "weights": Feature((2,), "float32")}


def batch(size: int) -> dict[str, np.ndarray]:
    return {
        "ids": np.arange(size * 3).reshape(size, 3) - 5,
        "weights": np.linspace(0, 1, size * 2, dtype=np.float32).reshape(size, 2),
    }


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with RecordWriter([path], FEATURES) as writer:
        writer.write(batch(7))
    read = read_examples(path, FEATURES)
    assert (read["ids"] == batch(7)["ids"]).all()
    assert (read["weights"] == batch(7)["weights"]).all()
    assert read["ids"].dtype == np.int64
    assert read["weights"].dtype == np.float32


def test_examples_go_to_the_files_in_turn(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    with RecordWriter(paths, FEATURES) as writer:
        writer.write(batch(2))
        writer.write({name: array[2:] for name, array in batch(8).items()})
    assert writer.examples_per_file == [3, 3, 2]
    for number, path in enumerate(paths):
        ids = read_examples(path, FEATURES)["ids"]
        assert (ids == batch(8)["ids"][number::3]).all()


def test_a_full_disk_is_an_error_of_the_operating_system():
    with (
        pytest.raises(OSError, match="No space left"),
        RecordWriter(["/dev/full"], FEATURES) as writer,
    ):
        writer.write(batch(3))


def test_reads_the_file_of_the_original(shared):
    read = read_examples(
        str(shared("golden/tfrecord/en_30k.tfrecord")), pretraining_features(128, 20)
    )
    original = np.load(shared("golden/tfrecord/en_30k.npz"))
    assert set(read) == set(original)
    for name, array in read.items():
        assert (array == original[name]).all(), name


def test_the_original_reads_ours(shared):
    """Same features, of the same kinds and lengths, in the examples as they are in the file."""
    path = str(shared("golden/tfrecord/en_30k.tfrecord"))
    record = next(tf.data.TFRecordDataset(path).as_numpy_iterator())
    original = tf.train.Example.FromString(record).features.feature
    features = pretraining_features(128, 20)
    zeros = {
        name: np.zeros((1, *feature.shape), feature.dtype) for name, feature in features.items()
    }
    ours = tf.train.Example.FromString(next(serialize(zeros, features))).features.feature
    assert set(ours) == set(original)
    for name, feature in ours.items():
        kind = feature.WhichOneof("kind")
        assert kind == original[name].WhichOneof("kind")
        assert len(getattr(feature, kind).value) == len(getattr(original[name], kind).value)
    lengths = json.loads(shared("golden/tfrecord/en_30k.json").read_text())["features"]
    assert lengths == {name: list(feature.shape) for name, feature in features.items()}


def test_other_lengths_and_broken_files_are_named(tmp_path):
    path = tmp_path / "a.tfrecord"
    with RecordWriter([str(path)], FEATURES) as writer:
        writer.write(batch(3))
    with pytest.raises(InputError, match="a.tfrecord.*ids") as error:
        read_examples(str(path), FEATURES | {"ids": Feature((4,), "int64")})
    assert "\n" not in str(error.value)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"a\.tfrecord"):
        read_examples(str(path), FEATURES)
    with pytest.raises(InputError, match=r"none\.tfrecord"):
        read_examples(str(tmp_path / "none.tfrecord"), FEATURES)
