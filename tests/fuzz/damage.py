"""What a disk, a crash or a stranger does to a file."""

from __future__ import annotations

import os
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Cases of each test. `FUZZ_CASES=2000 pytest tests/fuzz` is the long run, with new cases each time.
CASES = int(os.environ.get("FUZZ_CASES", "0"))


def cases(default: int) -> settings:
    """Settings of a test of that many cases, the same in every run unless FUZZ_CASES is set."""
    return settings(
        max_examples=CASES or default,
        derandomize=not CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


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
        """The content of the damaged file; None if there is no file any more."""
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
