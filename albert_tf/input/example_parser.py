"""Parses `tf.train.Example` protocol buffers into arrays, without TensorFlow.

One compiled loop parses a batch, without the lock of the interpreter: threads can parse at once.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from albert_tf.environment import compiled
from albert_tf.errors import InputError
from albert_tf.input.features import Feature

# Tags of tensorflow/core/example/{example,feature}.proto: field number * 8 + wire type. Field 1 is
# Example.features, Features.feature, the key of an entry, and the values of a list.
_FIRST = 0x0A
_ENTRY_VALUE = 0x12
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 0x0A, 0x12, 0x1A
_UNPACKED_FLOAT, _UNPACKED_INT64 = 0x0D, 0x08

# Kinds of lists.
_NONE, _INT64, _FLOAT = 0, 1, 2

# Why an example is refused.
_MALFORMED, _WRONG_LENGTH, _WRONG_VALUE = 1, 2, 3


class WrongLengthError(InputError):
    """An example lacks a feature, or `length` of its values differs from `expected`."""

    def __init__(self, example: str, feature: str, length: int, expected: int):
        super().__init__(
            f"{example} has {length or 'no'} values of {feature}, {expected} are expected"
        )
        self.feature, self.length, self.expected = feature, length, expected


class ExampleParser:
    """Parses examples that have the same features.

    Features that are not asked for are skipped. As in protocol buffers, entries may come in any
    order, of several with the same name the last one counts, and lists may be packed or not. The
    dtype of `integers` is int32, which wraps around, or int64.
    """

    def __init__(self, features: Mapping[str, Feature], integers: npt.DTypeLike = np.int32):
        self._features = dict(features)
        self._integers = np.dtype(integers)
        names = [name.encode() for name in features]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._name_ends = np.cumsum([0, *map(len, names)])
        kinds = [_INT64 if each.dtype == "int64" else _FLOAT for each in features.values()]
        self._kinds = np.array(kinds, np.int64)
        self._widths = np.array([math.prod(each.shape) for each in features.values()], np.int64)
        self._limits = np.array([each.limit or 0 for each in features.values()], np.int64)

    def __call__(
        self, records: Sequence[bytes], name_of: Callable[[int], str]
    ) -> dict[str, np.ndarray]:
        """Parse some examples.

        Args:
            records: serialized examples.
            name_of: what to call the example with some index in errors.

        Returns:
            Arrays `[records, *shape]` by feature name, of integers or float32.

        Raises:
            InputError: If a record is no example, an integer is beyond the limit of its feature, or
                a float is not finite.
            WrongLengthError: If a feature is missing or has another number of values.
        """
        count = len(records)
        starts = np.cumsum(self._widths * count) - self._widths * count
        values = np.empty(int(self._widths.sum()) * count, self._integers)
        row, feature, problem, detail = _parse_examples(
            np.frombuffer(b"".join(records), np.uint8),
            np.cumsum(np.fromiter(map(len, records), np.int64, count)),
            self._names,
            self._name_ends,
            self._kinds,
            self._widths,
            self._limits,
            starts,
            values,
        )
        if problem:
            self._refuse(name_of(row), list(self._features)[feature], problem, detail)
        arrays = {}
        for (name, expected), start in zip(self._features.items(), starts.tolist(), strict=True):
            array = values[start : start + math.prod(expected.shape) * count]
            if expected.dtype != "int64":
                array = array.astype(np.int32, copy=False).view(np.float32)
            arrays[name] = array.reshape(count, *expected.shape)
        return arrays

    def _refuse(self, example: str, name: str, problem: int, detail: int) -> None:
        feature = self._features[name]
        if problem == _MALFORMED:
            raise InputError(f"{example} is not a tf.train.Example")
        if problem == _WRONG_LENGTH:
            raise WrongLengthError(example, name, detail, math.prod(feature.shape))
        if feature.dtype == "int64":
            assert feature.limit is not None
            raise InputError(f"{example}: {name} must be 0 to {feature.limit - 1}, not {detail}")
        value = np.array(detail, np.int64).astype(np.int32).view(np.float32)
        raise InputError(f"{example}: {name} must be a finite number, not {value}")


def feature_lengths(record: bytes) -> dict[str, int]:
    """Return the number of values of every feature of an example, by name; 0 for byte strings.

    Raises:
        ValueError: If the record is no example.
    """
    content = np.frombuffer(record, np.uint8)
    lengths = {}
    for begin, end in _fields(content, 0, len(content), _FIRST):
        for entry, entry_end in _fields(content, begin, end, _FIRST):
            name = b""
            for key, key_end in _fields(content, entry, entry_end, _FIRST):
                name = record[key:key_end]
            counts = [
                _parse_entry(content, entry, entry_end, kind, 0, np.empty(0, np.int64))[0]
                for kind in (_INT64, _FLOAT)
            ]
            if min(counts) < 0:
                raise ValueError("not a tf.train.Example")
            lengths[name.decode(errors="replace")] = max(counts)
    return lengths


def _fields(content: np.ndarray, position: int, end: int, tag: int) -> Iterator[tuple[int, int]]:
    """Yield where the fields with a tag begin and end."""
    while position < end:
        found, begin, position = _field(content, position, end)
        if position < 0:
            raise ValueError("not a tf.train.Example")
        if found == tag:
            yield begin, position


@compiled
def _parse_examples(
    content, ends, names, name_ends, kinds, widths, limits, starts, values
) -> tuple[int, int, int, int]:
    """Parse examples that follow each other in `content`, each up to one of `ends`.

    Args:
        content: uint8 `[bytes]`.
        ends: int64 `[examples]`.
        names: uint8, the names of the features one after the other.
        name_ends: int64 `[features + 1]`, where each of them ends, from 0.
        kinds, widths, limits: int64 `[features]`; a limit of 0 is none.
        starts: int64 `[features]`, where the values of each begin in `values`.
        values: int32 or int64, filled; floats as their bits.

    Returns:
        Index of the first example that is refused, the feature, why, and the number of its values
        or its wrong value; why is 0 if there is none.
    """
    features = len(kinds)
    counts = np.zeros(features, np.int64)
    wrong = np.zeros(features, np.bool_)
    wrong_values = np.zeros(features, np.int64)
    position = 0
    for row in range(len(ends)):
        counts[:] = 0
        wrong[:] = False
        end = ends[row]
        while position < end:
            tag, begin, position = _field(content, position, end)
            if position < 0:
                return row, 0, _MALFORMED, 0
            if tag != _FIRST:
                continue
            entry = begin
            while entry < position:
                tag, begin, entry = _field(content, entry, position)
                if entry < 0:
                    return row, 0, _MALFORMED, 0
                if tag != _FIRST:
                    continue
                feature = _feature_of_entry(content, begin, entry, names, name_ends)
                if feature == -2:
                    return row, 0, _MALFORMED, 0
                if feature == -1:
                    continue
                width = widths[feature]
                start = starts[feature] + row * width
                count, is_wrong, wrong_value = _parse_entry(
                    content,
                    begin,
                    entry,
                    kinds[feature],
                    limits[feature],
                    values[start : start + width],
                )
                if count < 0:
                    return row, feature, _MALFORMED, 0
                counts[feature], wrong[feature] = count, is_wrong
                wrong_values[feature] = wrong_value
        for feature in range(features):
            if counts[feature] != widths[feature]:
                return row, feature, _WRONG_LENGTH, counts[feature]
            if wrong[feature]:
                return row, feature, _WRONG_VALUE, wrong_values[feature]
    return 0, 0, 0, 0


@compiled
def _feature_of_entry(content, position, end, names, name_ends):
    """Return which feature an entry is for; -1: none of them, -2: the entry is malformed."""
    key_begin = key_end = 0
    while position < end:
        tag, begin, position = _field(content, position, end)
        if position < 0:
            return -2
        if tag == _FIRST:
            key_begin, key_end = begin, position
    for feature in range(len(name_ends) - 1):
        name = name_ends[feature]
        length = name_ends[feature + 1] - name
        if length != key_end - key_begin:
            continue
        matching = 0
        while matching < length and content[key_begin + matching] == names[name + matching]:
            matching += 1
        if matching == length:
            return feature
    return -1


@compiled
def _parse_entry(content, position, end, kind, limit, values):
    """Return how many values an entry has, whether one is wrong, and the first such value.

    There are -1 values in an entry that is malformed, none in one of another kind.
    """
    present, count, is_wrong, wrong_value = _NONE, 0, False, np.int64(0)
    while position < end:
        tag, begin, position = _field(content, position, end)
        if position < 0:
            return -1, False, wrong_value
        if tag != _ENTRY_VALUE:
            continue
        feature = begin
        while feature < position:
            tag, begin, feature = _field(content, feature, position)
            if feature < 0:
                return -1, False, wrong_value
            if tag not in (_BYTES_LIST, _FLOAT_LIST, _INT64_LIST):
                continue
            found = _INT64 if tag == _INT64_LIST else _FLOAT if tag == _FLOAT_LIST else _NONE
            if found != present:  # the last kind counts, lists of the same kind are one
                present, count, is_wrong = found, 0, False
            if found != kind:
                continue
            count, is_wrong, wrong_value = _parse_list(
                content, begin, feature, kind, limit, values, count, is_wrong, wrong_value
            )
            if count < 0:
                return -1, False, wrong_value
    return (count if present == kind else 0), is_wrong, wrong_value


@compiled
def _parse_list(content, position, end, kind, limit, values, count, is_wrong, wrong_value):
    """Append the values of a list to the `count` ones before; return as `_parse_entry`."""
    unpacked = _UNPACKED_INT64 if kind == _INT64 else _UNPACKED_FLOAT
    while position < end:
        tag, begin, position = _field(content, position, end)
        if position < 0:
            return -1, False, wrong_value
        if tag not in (_FIRST, unpacked):
            continue
        if kind == _FLOAT and (position - begin) % 4:
            return -1, False, wrong_value
        while begin < position:
            if kind == _FLOAT:
                value = np.int64(0)
                for byte in range(4):
                    value |= np.int64(content[begin + byte]) << (8 * byte)
                begin += 4
                invalid = value & 0x7F800000 == 0x7F800000  # infinite, or not a number
            else:
                # Nearly all values have one or two bytes.
                value = np.int64(content[begin])
                begin += 1
                if value >= 0x80:
                    high = np.int64(content[begin]) if begin < position else np.int64(0x80)
                    if high < 0x80:
                        value += (high - 1) << 7
                        begin += 1
                    else:
                        value, begin = _varint(content, begin - 1, position)
                        if begin < 0:
                            return -1, False, wrong_value
                invalid = np.uint64(value) > np.uint64(limit - 1)
            if invalid and not is_wrong:
                is_wrong, wrong_value = True, value
            if count < len(values):
                values[count] = value
            count += 1
    return count, is_wrong, wrong_value


@compiled
def _field(content, position, end):
    """Return the tag of a field, and where its content begins and ends; -1 if it is malformed."""
    tag, begin = _varint(content, position, end)
    if begin < 0 or tag < 8 or tag >= 1 << 32:
        return tag, begin, -1
    wire_type = tag & 7
    if wire_type == 2:
        length, begin = _varint(content, begin, end)
        if begin < 0 or length < 0 or length > end - begin:
            return tag, begin, -1
        return tag, begin, begin + length
    if wire_type == 0:
        _, after = _varint(content, begin, end)
        return tag, begin, after
    # Groups, a deprecated feature of protocol buffers, are refused.
    size = 8 if wire_type == 1 else 4 if wire_type == 5 else end + 1
    return tag, begin, begin + size if size <= end - begin else -1


@compiled
def _varint(content, position, end):
    """Return a varint as int64 and the position after it, which is -1 if it is malformed."""
    bits = np.uint64(0)
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = content[position]
        position += 1
        bits |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            return np.int64(bits), position
    return np.int64(0), -1
