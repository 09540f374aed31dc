"""What was measured: raw seconds of turns, and the medians, rates and ratios that follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks.turns import Spread


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One way of doing one piece of work.

    Attributes:
        work: what was done, the same words for all that are compared: "base, 8 x 128, float32".
        way: who or what did it.
        seconds: of every turn.
        amount: units of work in a turn.
        unit: of the work, in the plural: "sequences".
        floor: seconds of every turn below which the same amount cannot be; None where nothing
            was measured beside.
        peak_memory: bytes, of the process; None where it was not looked at.
        details: what else belongs to it, by name.
    """

    work: str
    way: str
    seconds: Sequence[float]
    amount: float = 1.0
    unit: str = "runs"
    floor: Sequence[float] | None = None
    peak_memory: int | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def rate(self) -> Spread:
        """Units a second."""
        return Spread.of(self.amount / seconds for seconds in self.seconds)

    @property
    def unit_seconds(self) -> Spread:
        """Seconds a unit."""
        return Spread.of(seconds / self.amount for seconds in self.seconds)

    @property
    def floor_share(self) -> Spread | None:
        """How much of the floor's rate is reached, turn by turn; 1 is as fast as can be."""
        if self.floor is None:
            return None
        return Spread.of(low / own for low, own in zip(self.floor, self.seconds, strict=True))

    def times_as_long(self, reference: Measurement) -> Spread:
        """How many times as long as `reference` a unit takes, turn by turn."""
        per_unit = reference.amount / self.amount
        pairs = zip(self.seconds, reference.seconds, strict=True)
        return Spread.of(per_unit * own / other for own, other in pairs)

    def to_dict(self, reference: Measurement | None = None) -> dict[str, Any]:
        """All of it, for JSON; with the ratio to `reference` where there is one."""
        values: dict[str, Any] = {
            "work": self.work,
            "way": self.way,
            **self.details,
            "unit": self.unit,
            "units_per_turn": self.amount,
            "seconds": list(self.seconds),
            "units_per_second": dataclasses.asdict(self.rate),
            "seconds_per_unit": dataclasses.asdict(self.unit_seconds),
        }
        if self.floor is not None:
            values["floor_seconds"] = list(self.floor)
            values["share_of_floor"] = dataclasses.asdict(self.floor_share)
        if self.peak_memory is not None:
            values["peak_memory_bytes"] = self.peak_memory
        if reference is not None:
            values["compared_with"] = reference.way
            values["times_as_long"] = dataclasses.asdict(self.times_as_long(reference))
        return values


def reference_of(
    measurement: Measurement, measurements: Sequence[Measurement], way: str
) -> Measurement | None:
    """What `measurement` is compared with: `way` at the same work; None for itself or if missing.

    Nor is there one where the turns were not the same, because either was measured apart.
    """
    for other in measurements:
        if other.work == measurement.work and other.way == way and other is not measurement:
            return other if len(other.seconds) == len(measurement.seconds) else None
    return None
