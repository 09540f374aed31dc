"""TFRecord files of `tf.train.Example`, written without TensorFlow.

All examples have the same features of fixed lengths, so whole batches become protocol buffers in
one compiled loop, in the bytes that `tf.train.Example.SerializeToString(deterministic=True)` gives;
building messages one value at a time would take most of the time of data preparation, and loading
TensorFlow seconds and hundreds of megabytes in every process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import IO

import google_crc32c
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import tensorflow_reason
from albert_tf.input.features import Feature
from albert_tf.input.masking import compiled

# Tags of tensorflow/core/example/{example,feature}.proto: field number * 8 + 2, a length follows.
# Example.features, Features.feature, an entry's key, the `value` of a list of numbers: field 1.
_FIRST = 0x0A
_ENTRY_VALUE = 0x12
_FLOAT_LIST, _INT64_LIST = 0x12, 0x1A
_TAGS_AND_LENGTHS = 40  # more than the bytes that a feature takes beyond its name and its values


def write_records(file: IO[bytes], batch: Mapping[str, np.ndarray]) -> int:
    """Writes the examples of a batch as TFRecords; returns their number.

    Args:
        file: open for writing bytes.
        batch: by feature name, an integer array (not negative) or float array `[batch, *shape]`.
    """
    count = 0
    for serialized in serialize(batch):
        file.write(frame(serialized))
        count += 1
    return count


def frame(record: bytes) -> bytes:
    """A record as it stands in a TFRecord file: length, its checksum, content, its checksum.

    (tensorflow/core/lib/io/record_writer.h)
    """
    length = struct.pack("<Q", len(record))
    return b"".join((length, _masked_crc(length), record, _masked_crc(record)))


def _masked_crc(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def serialize(batch: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """Yields the examples of a batch as serialized `tf.train.Example`s."""
    # The order of a map's entries is free; the same bytes every time need a fixed one.
    names = sorted(batch)
    columns = []
    for name in names:
        rows = np.asarray(batch[name])
        rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
        is_float = rows.dtype.kind == "f"
        columns.append(rows.astype(np.float32).view(np.int32) if is_float else rows)
    encoded_names = [name.encode() for name in names]
    widest = 5 * sum(rows.shape[1] for rows in columns)
    size = widest + sum(map(len, encoded_names)) + _TAGS_AND_LENGTHS * (len(names) + 1)
    buffer = np.empty(len(columns[0]) * size, np.uint8)
    ends = np.empty(len(columns[0]), np.int64)
    _serialize(
        tuple(np.ascontiguousarray(rows, np.int32) for rows in columns),
        np.array([np.asarray(batch[name]).dtype.kind == "f" for name in names]),
        np.frombuffer(b"".join(encoded_names), np.uint8),
        np.cumsum([0, *map(len, encoded_names)]),
        buffer,
        ends,
    )
    content = buffer[: ends[-1] if len(ends) else 0].tobytes()
    begin = 0
    for end in ends.tolist():
        yield content[begin:end]
        begin = end


@compiled
def _serialize(columns, is_float, names, name_offsets, buffer, ends):
    place = 0
    values = np.empty(len(columns), np.int64)  # bytes of the packed values of each feature
    for row in range(len(ends)):
        total = 0
        for column in range(len(columns)):
            values[column] = _packed_size(columns[column][row], is_float[column])
            name_length = name_offsets[column + 1] - name_offsets[column]
            total += _field(_entry(name_length, values[column]))
        place = _put_tag(buffer, place, _FIRST, total)
        for column in range(len(columns)):
            size = values[column]
            begin, end = name_offsets[column], name_offsets[column + 1]
            place = _put_tag(buffer, place, _FIRST, _entry(end - begin, size))
            place = _put_tag(buffer, place, _FIRST, end - begin)
            for byte in range(begin, end):
                buffer[place] = names[byte]
                place += 1
            place = _put_tag(buffer, place, _ENTRY_VALUE, _field(_field(size)))
            kind = _FLOAT_LIST if is_float[column] else _INT64_LIST
            place = _put_tag(buffer, place, kind, _field(size))
            place = _put_tag(buffer, place, _FIRST, size)
            for value in columns[column][row]:
                if is_float[column]:
                    for shift in (0, 8, 16, 24):
                        buffer[place] = (value >> shift) & 0xFF
                        place += 1
                else:
                    place = _put_varint(buffer, place, value)
        ends[row] = place


@compiled
def _entry(name_length, values_size):
    """Bytes of a map entry: its key, and its value of a list in a feature."""
    return _field(name_length) + _field(_field(_field(values_size)))


@compiled
def _field(size):
    """Bytes of a field with a content of `size` bytes: tag, length, content."""
    return 1 + _varint_size(size) + size


@compiled
def _packed_size(row, is_float):
    if is_float:
        return 4 * len(row)
    size = 0
    for value in row:
        size += _varint_size(value)
    return size


@compiled
def _varint_size(value):
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@compiled
def _put_tag(buffer, place, tag, length):
    buffer[place] = tag
    return _put_varint(buffer, place + 1, length)


@compiled
def _put_varint(buffer, place, value):
    while value >= 0x80:
        buffer[place] = (value & 0x7F) | 0x80
        value >>= 7
        place += 1
    buffer[place] = value
    return place + 1


def read_examples(path: str, features: Mapping[str, Feature]) -> dict[str, np.ndarray]:
    """Reads a whole file, as training does, into arrays `[examples, *shape]`.

    Raises:
        InputError: the file is missing, cut off, or holds other features or lengths.
    """
    from albert_tf.quiet import quiet_import

    with quiet_import():  # reading is for tests and for looking at files
        import tensorflow as tf

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
