"""TFRecord files of `tf.train.Example`; the only module here that loads TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import tensorflow_errors_as_os_errors, tensorflow_reason
from albert_tf.input.features import Feature
from albert_tf.quiet import quiet_import

with quiet_import():
    import tensorflow as tf


class RecordWriter:
    """Writes batches of examples to one or more files, round-robin as the original does.

    Args:
        paths: the files; example number i goes to file i modulo their count.
        features: the features of an example, in the order in which they are written.
    """

    def __init__(self, paths: Sequence[str], features: Mapping[str, Feature]):
        self._features = features
        with tensorflow_errors_as_os_errors():
            self._writers = [tf.io.TFRecordWriter(path) for path in paths]
        self._written = 0

    def write(self, batch: Mapping[str, np.ndarray]) -> None:
        """Writes examples.

        Args:
            batch: by feature name, an array `[batch, *shape of the feature]`.
        """
        with tensorflow_errors_as_os_errors():
            for serialized in serialize(batch, self._features):
                file = self._written % len(self._writers)
                self._writers[file].write(serialized)
                self._written += 1

    @property
    def examples_per_file(self) -> list[int]:
        files = len(self._writers)
        return [(self._written + files - 1 - file) // files for file in range(files)]

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception) -> None:
        with tensorflow_errors_as_os_errors():
            for writer in self._writers:
                writer.close()


def serialize(batch: Mapping[str, np.ndarray], features: Mapping[str, Feature]) -> Iterator[bytes]:
    """Yields the examples of a batch as serialized `tf.train.Example`s."""
    columns = [
        (name, feature.dtype, batch[name].reshape(len(batch[name]), -1).tolist())
        for name, feature in features.items()
    ]
    for row in range(len(columns[0][2])):
        example = tf.train.Example()
        values = example.features.feature
        for name, dtype, rows in columns:
            target = values[name].float_list if dtype == "float32" else values[name].int64_list
            target.value.extend(rows[row])
        # Maps have no order in the wire format; the same bytes every time need a fixed one.
        yield example.SerializeToString(deterministic=True)


def read_examples(path: str, features: Mapping[str, Feature]) -> dict[str, np.ndarray]:
    """Reads a whole file, as training does, into arrays `[examples, *shape]`.

    Raises:
        InputError: the file is missing, cut off, or holds other features or lengths.
    """
    specification = {
        name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        for name, feature in features.items()
    }
    try:
        records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        parsed = tf.io.parse_example(tf.constant(records, tf.string), specification)
    except tf.errors.OpError as error:
        reason = tensorflow_reason(error)
        raise InputError(f"{path}: not a file of such examples: {reason}") from None
    return {name: tensor.numpy() for name, tensor in parsed.items()}
