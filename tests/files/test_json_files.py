"""JSON is checked against the form that its reader declares."""

import dataclasses
import math

import pytest

from albert_tf.errors import InputError
from albert_tf.files import Positive, read_json, to_json


@dataclasses.dataclass(frozen=True)
class Form:
    """What the tests read."""

    size: Positive
    rates: list[float] = dataclasses.field(default_factory=list)
    name: str | None = None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", r"not UTF-8 \(invalid start byte, byte 0xff at 0\)"),
        (b"{", r"not JSON \(Expecting property name.*"),
        (b"[" * 100_000 + b"]" * 100_000, r"not usable JSON \(nested too deeply\)"),
        (b'{"size": 1, "name": "\\ud800"}', r"contains \\ud800, half of a surrogate pair"),
        (b"[1]", "must be object, not array"),
        (b"{}", "lacks 'size'"),
        (b'{"size": "x"}', 'size="x": must be int, not str'),
        (b'{"size": true}', "size=true: must be int, not bool"),
        (b'{"size": 0}', "size=0: must be int >= 1"),
        (b'{"size": 1' + b"0" * 400 + b"}", r"size=10+\.\.\.: .*"),
        (b'{"size": 1, "rates": [1, null]}', r"rates\[1\]=null: must be float, not null"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, reason):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: {reason}$"):
        read_json(str(path), Form)


def test_a_form_need_not_declare_everything(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b'\xef\xbb\xbf{"size": 3, "rates": [1, NaN, Infinity], "more": [{}]}')
    found = read_json(str(path), Form)
    assert (found.size, found.name) == (3, None)
    assert found.rates[::2] == [1.0, math.inf]
    assert math.isnan(found.rates[1])
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        read_json(str(tmp_path / "none.json"), Form)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(value):
    written = to_json({"a": [value, (value, 1.5)], "b": {"c": value}, "d": "NaN"})
    assert written == '{"a": [null, [null, 1.5]], "b": {"c": null}, "d": "NaN"}'
