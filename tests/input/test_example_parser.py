"""Parsing of `tf.train.Example`: any form that protocol buffers allow, as TensorFlow reads it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.input.example_parser import ExampleParser, WrongLengthError, feature_lengths
from albert_tf.input.features import Feature
from tests.conftest import random_inputs, refusal

FEATURES = {
    "ids": Feature((3,), "int64"),
    "weights": Feature((2,), "float32"),
    "one": Feature((1,), "int64"),
}
KINDS = ["int64", "float32", "bytes"]
NAMES = [*FEATURES, "other", "id", ""]


def varint(value: int) -> bytes:
    value %= 2**64
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number * 8 + 2) + varint(len(content)) + content


# Fields that no message has, of every wire type but groups.
UNKNOWN = st.one_of(
    st.builds(lambda n, value: varint(n * 8) + varint(value), st.integers(20, 3000), st.integers()),
    st.builds(lambda n: varint(n * 8 + 1) + bytes(8), st.integers(20, 3000)),
    st.builds(lambda n: varint(n * 8 + 5) + bytes(4), st.integers(20, 3000)),
    st.builds(field, st.integers(20, 3000), st.binary(max_size=5)),
)
NOISE = st.lists(UNKNOWN, max_size=1).map(b"".join)
INTEGERS = st.integers(0, 300) | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def encoded(kind: str, values: list, is_packed: bool) -> bytes:
    """Return the values as one field or as many."""
    if kind == "int64":
        parts, wire_type = [varint(value) for value in values], 0
    elif kind == "float32":
        parts, wire_type = [np.float32(value).tobytes() for value in values], 5
    else:
        return b"".join(field(1, value) for value in values)
    if is_packed:
        return field(1, b"".join(parts))
    return b"".join(varint(8 + wire_type) + part for part in parts)


@st.composite
def lists(draw, kind: str, values: list) -> bytes:
    """Return a list, in two parts that may be packed or not, between unknown fields."""
    cut = draw(st.integers(0, len(values)))
    parts = [encoded(kind, part, draw(st.booleans())) for part in (values[:cut], values[cut:])]
    content = draw(NOISE) + parts[0] + draw(NOISE) + parts[1] + draw(NOISE)
    return field({"bytes": 1, "float32": 2, "int64": 3}[kind], content)


@st.composite
def entries(draw, name: str) -> bytes:
    """Return an entry of the map, of the right form more often than not."""
    kind = draw(st.sampled_from(KINDS))
    length = draw(st.integers(0, 4))
    if name in FEATURES and draw(st.integers(0, 9)):
        kind, (length,) = FEATURES[name].dtype, FEATURES[name].shape
    # Of two lists in one entry, the kind of the last one counts.
    others = draw(st.lists(st.sampled_from(KINDS), max_size=draw(st.integers(0, 1))))
    content = b""
    for each in [*others, kind]:
        values = {"int64": INTEGERS, "float32": FLOATS, "bytes": st.binary(max_size=3)}[each]
        content += draw(lists(each, draw(st.lists(values, min_size=length, max_size=length))))
    # No unknown field directly in an entry: implementations differ in what becomes of the entry.
    parts = [field(1, name.encode()), field(2, draw(NOISE) + content + draw(NOISE))]
    return field(1, b"".join(draw(st.permutations(parts))))


@st.composite
def messages(draw) -> bytes:
    names = draw(st.permutations(NAMES)) + draw(st.lists(st.sampled_from(NAMES), max_size=2))
    all_entries = [draw(entries(name)) for name in names]
    cut = draw(st.integers(0, len(names)))
    parts = [field(1, b"".join(part)) for part in (all_entries[:cut], all_entries[cut:])]
    return draw(NOISE) + parts[0] + draw(NOISE) + parts[1]


@pytest.mark.integration
@random_inputs(60)
@given(messages())
def test_messages_mean_what_they_mean_to_tensorflow(message):
    import tensorflow as tf

    present = tf.train.Example.FromString(message).features.feature
    expected = {}
    for name, feature in FEATURES.items():
        stored = present[name].int64_list if feature.dtype == "int64" else present[name].float_list
        expected[name] = list(stored.value)
    counts = {
        name: len(stored.int64_list.value) + len(stored.float_list.value)
        for name, stored in present.items()
    }
    assert feature_lengths(message) | counts == counts
    parse = ExampleParser(FEATURES, np.int64)
    if lengths := {
        name: len(expected[name])
        for name, feature in FEATURES.items()
        if len(expected[name]) != feature.shape[0]
    }:
        with pytest.raises(WrongLengthError) as error:
            parse([message], str)
        assert (error.value.feature, error.value.length) in lengths.items()
        return
    found = parse([message], str)
    assert {name: value[0].tolist() for name, value in found.items()} == expected
    narrow = ExampleParser(FEATURES)([message] * 2, str)
    np.testing.assert_array_equal(narrow["ids"][1], found["ids"][0].astype(np.int32))
    np.testing.assert_array_equal(narrow["weights"], np.repeat(found["weights"], 2, axis=0))


@pytest.mark.integration
@given(
    st.binary(max_size=60)
    | st.builds(lambda content, end: content[: end % len(content)], messages(), st.integers(0))
)
def test_any_bytes_are_parsed_or_refused(content):
    for record in (content, field(1, content), field(1, field(1, content))):
        problem = None
        try:
            ExampleParser(FEATURES)([record], lambda row: f"a: example {row}")
        except InputError as error:
            problem = str(error)
        assert problem is None or problem.startswith("a: example 0 ")


def test_limits_hold_for_the_last_list_of_a_feature():
    parse = ExampleParser({"ids": Feature((2,), "int64", 10)})

    def entry(*values):
        return field(1, field(1, b"ids") + field(2, field(3, encoded("int64", values, True))))

    def of_lists(*lists):
        content = b"".join(field(number, encoded(k, [v], True)) for number, k, v in lists)
        return field(1, field(1, field(1, b"ids") + field(2, content)))

    ints, floats = (3, "int64", 99), (2, "float32", 1.0)
    last = (3, "int64", 1), (3, "int64", 2)
    assert parse([of_lists(ints, floats, *last)], str)["ids"].tolist() == [[1, 2]]
    good, bad = entry(0, 9), entry(3, 10)
    assert parse([field(1, bad + good)], str)["ids"].tolist() == [[0, 9]]
    for record, problem in (
        (field(1, good + bad), "7: ids must be 0 to 9, not 10"),
        (field(1, entry(-(2**63), 1)), f"7: ids must be 0 to 9, not {-(2**63)}"),
        (field(1, entry(2**32, 1)), f"7: ids must be 0 to 9, not {2**32}"),
        (field(1, entry(1)), "7 has 1 values of ids, 2 are expected"),
        (field(1, entry(99, 1, 2)), "7 has 3 values of ids, 2 are expected"),
        (of_lists(*last, floats), "7 has no values of ids, 2 are expected"),
        (b"", "7 has no values of ids, 2 are expected"),
        (b"\0", "7 is not a tf.train.Example"),
    ):
        records = [field(1, good), record]
        assert refusal(parse, records, lambda row: str(row + 6)) == problem
