"""What tests of batches share: files, and comparison with the TensorFlow engine."""

from __future__ import annotations

import numpy as np

from albert_tf.input.features import pretraining_features
from albert_tf.input.share import Share
from data_prep.tfrecords import write_records
from tests.support.tiny import LENGTH, PREDICTIONS, batch

COUNTS = (0, 7, 0, 130, 64, 0)
EXAMPLES = sum(COUNTS)
STATIC = pretraining_features(LENGTH, PREDICTIONS)
SHARES = [Share(), Share(1, 2, 2), Share(3, 4)]


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


def assert_same(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert found[name].dtype == value.dtype


def joined(dataset, share: Share, count: int) -> list[dict[str, np.ndarray]]:
    """The first global batches of a dataset, put together again of what its replicas get."""
    iterator = dataset.as_numpy_iterator()
    steps = [[next(iterator) for _ in range(share.replicas)] for _ in range(count)]
    return [{name: np.concatenate([p[name] for p in s]) for name in s[0]} for s in steps]
