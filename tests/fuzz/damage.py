"""What a disk, a crash or a stranger does to a file."""

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Damage(NamedTuple):
    """A change of a file.

    Attributes:
        kind: one of `KINDS`.
        place: where in the file, from 0 to 1.
        value: which bit, byte or number of bytes.
    """

    kind: str
    place: float
    value: int

    def __call__(self, content: bytes) -> bytes | None:
        """Return the content of the damaged file; None if there is no file any more."""
        at = int(self.place * len(content))
        if self.kind == "lost":
            return None
        if self.kind == "truncated":
            return content[:at]
        if self.kind == "longer":
            return content + bytes([self.value]) * (1 + self.value)
        if self.kind == "not written":  # a block that the disk never got
            return content[:at] + bytes(min(512, len(content) - at)) + content[at + 512 :]
        if self.kind == "cut out":
            return content[:at] + content[at + 1 + self.value :]
        if not content:
            return content
        at = min(at, len(content) - 1)
        byte = content[at] ^ (1 << self.value % 8) if self.kind == "bit" else self.value
        return content[:at] + bytes([byte]) + content[at + 1 :]


KINDS = ("bit", "byte", "truncated", "longer", "not written", "cut out", "lost")

damages = st.builds(Damage, st.sampled_from(KINDS), st.floats(0, 1), st.integers(0, 255))

# Values that a field of JSON can have instead of its own; "deep" stands for a nested list.
_VALUES = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**70, 10**400, 1e308, float("nan")),
    *(float("inf"), "", "x", "x" * 10_000, "\ud800", "\x00\x1b[2J\n", "../../x", [], {}, [[]]),
    *({"a": 1}, "deep"),
)


class JsonChange(NamedTuple):
    """A change of a value in JSON.

    Attributes:
        place: which value, from 0 to 1, in the order of the text.
        value: what it becomes; REMOVED to delete it.
    """

    place: float
    value: Any


REMOVED = object()

json_changes = st.builds(JsonChange, st.floats(0, 1), st.sampled_from((REMOVED, *_VALUES)))


def changed_json(value: Any, changes: list[JsonChange], keep_lines: bool = False) -> bytes:
    """Return JSON, or JSON lines of the elements of a list, after some changes."""
    value = copy.deepcopy(value)
    for change in changes:
        places = list(_places(value))
        if keep_lines:
            places = [place for place in places if place[0] is not None]
        if not places:
            break
        parent, key = places[min(int(change.place * len(places)), len(places) - 1)]
        if parent is None:
            value = None if change.value is REMOVED else copy.deepcopy(change.value)
        elif change.value is REMOVED:
            del parent[key]
        else:
            parent[key] = copy.deepcopy(change.value)
    lines = value if keep_lines else [value]
    deep = "[" * 100_000 + "]" * 100_000
    text = "\n".join(json.dumps(line) for line in lines)
    return text.replace('"deep"', deep).encode()


def _places(value: Any, parent: Any = None, key: Any = None) -> Iterator[tuple[Any, Any]]:
    yield parent, key
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for name, child in list(children):
            yield from _places(child, value, name)
