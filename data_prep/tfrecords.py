"""Writes and reads TFRecord files of `tf.train.Example` without TensorFlow.

All examples have the same features of fixed lengths, so one compiled loop turns a whole batch into
protocol buffers, with the bytes of `tf.train.Example.SerializeToString(deterministic=True)`.
Building messages one value at a time would take most of the time of data preparation, and loading
TensorFlow would take seconds and hundreds of megabytes in every process.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.features import Feature
from albert_tf.input.record_index import masked_crc
from albert_tf.input.record_reader import iter_examples

# Tags of tensorflow/core/example/{example,feature}.proto: field number * 8 + 2; a length follows.
# Field 1 is Example.features, Features.feature, the key of an entry, the values of a list.
_FIRST = 0x0A
_ENTRY_VALUE = 0x12
_FLOAT_LIST, _INT64_LIST = 0x12, 0x1A
_MAX_OVERHEAD_BYTES = 40  # of a feature, besides its name and its values


def write_records(file: IO[bytes], batch: Mapping[str, np.ndarray]) -> None:
    """Write the examples of a batch as TFRecords.

    Args:
        batch: arrays of non-negative integers or of floats by feature name, `[batch, *shape]`.
    """
    file.writelines(map(frame, serialize(batch)))


def frame(record: bytes) -> bytes:
    """Return a record in the format of TFRecord files: length, its checksum, content, its checksum.

    Source: tensorflow/core/lib/io/record_writer.h.
    """
    length = struct.pack("<Q", len(record))
    return b"".join((length, masked_crc(length), record, masked_crc(record)))


def serialize(batch: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """Yield the examples of a batch as serialized `tf.train.Example` messages."""
    # The order of the entries of a map is arbitrary; sorted, the bytes are deterministic.
    names = sorted(batch)
    columns, are_float = [], []
    for name in names:
        rows = np.asarray(batch[name])
        rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
        are_float.append(rows.dtype.kind == "f")
        columns.append(rows.astype(np.float32).view(np.int32) if are_float[-1] else rows)
    encoded_names = [name.encode() for name in names]
    widest = 5 * sum(rows.shape[1] for rows in columns)
    size = widest + sum(map(len, encoded_names)) + _MAX_OVERHEAD_BYTES * (len(names) + 1)
    buffer = np.empty(len(columns[0]) * size, np.uint8)
    ends = np.empty(len(columns[0]), np.int64)
    _serialize(
        tuple(np.ascontiguousarray(rows, np.int32) for rows in columns),
        np.array(are_float),
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
    position = 0
    values = np.empty(len(columns), np.int64)  # bytes of the packed values of each feature
    for row in range(len(ends)):
        total = 0
        for column in range(len(columns)):
            values[column] = _packed_size(columns[column][row], is_float[column])
            name_length = name_offsets[column + 1] - name_offsets[column]
            total += _field(_entry(name_length, values[column]))
        position = _put_tag(buffer, position, _FIRST, total)
        for column in range(len(columns)):
            size = values[column]
            begin, end = name_offsets[column], name_offsets[column + 1]
            position = _put_tag(buffer, position, _FIRST, _entry(end - begin, size))
            position = _put_tag(buffer, position, _FIRST, end - begin)
            for byte in range(begin, end):
                buffer[position] = names[byte]
                position += 1
            position = _put_tag(buffer, position, _ENTRY_VALUE, _field(_field(size)))
            kind = _FLOAT_LIST if is_float[column] else _INT64_LIST
            position = _put_tag(buffer, position, kind, _field(size))
            position = _put_tag(buffer, position, _FIRST, size)
            for value in columns[column][row]:
                if is_float[column]:
                    for shift in (0, 8, 16, 24):
                        buffer[position] = (value >> shift) & 0xFF
                        position += 1
                else:
                    position = _put_varint(buffer, position, value)
        ends[row] = position


@compiled
def _entry(name_length, values_size):
    """Return size of a map entry: its key, and its value, a list in a feature."""
    return _field(name_length) + _field(_field(_field(values_size)))


@compiled
def _field(size):
    """Return size of a field with a content of `size` bytes: tag, length, content."""
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
def _put_tag(buffer, position, tag, length):
    buffer[position] = tag
    return _put_varint(buffer, position + 1, length)


@compiled
def _put_varint(buffer, position, value):
    while value >= 0x80:
        buffer[position] = (value & 0x7F) | 0x80
        value >>= 7
        position += 1
    buffer[position] = value
    return position + 1


def read_examples(path: str, features: Mapping[str, Feature]) -> dict[str, np.ndarray]:
    """Read some features of a whole file, as training does.

    Returns:
        Arrays `[examples, *shape]` by feature name, int64 or float32.

    Raises:
        InputError: If the file is missing, truncated, or has other features or lengths.
    """
    batches = list(iter_examples(path, features))
    return {
        name: np.concatenate(
            [np.zeros((0, *feature.shape), feature.dtype), *(batch[name] for batch in batches)]
        )
        for name, feature in features.items()
    }
