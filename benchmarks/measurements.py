"""Measurements: seconds of each round, and the medians, rates and ratios derived from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks.interleaving import Spread


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The times of one implementation for one piece of work.

    Attributes:
        work: name of the work, the same for all that are compared: "base, 8 x 128, float32".
        implementation: its name.
        seconds: of each round.
        amount: units of work in a round.
        unit: unit of the work, in the plural: "sequences".
        lower_bound: lower bound of the seconds of each round; None if it was not measured.
        peak_memory: peak memory of the process in bytes; None if it was not measured.
        details: other values by name.
    """

    work: str
    implementation: str
    seconds: Sequence[float]
    amount: float = 1.0
    unit: str = "runs"
    lower_bound: Sequence[float] | None = None
    peak_memory: int | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def rate(self) -> Spread:
        """Units per second."""
        return Spread.of(self.amount / seconds for seconds in self.seconds)

    @property
    def unit_seconds(self) -> Spread:
        """Seconds per unit."""
        return Spread.of(seconds / self.amount for seconds in self.seconds)

    @property
    def lower_bound_share(self) -> Spread | None:
        """Lower bound over measured time in each round; 1 means that nothing can be faster."""
        if self.lower_bound is None:
            return None
        return Spread.of(low / own for low, own in zip(self.lower_bound, self.seconds, strict=True))

    def times_as_long(self, reference: Measurement) -> Spread:
        """Return seconds per unit over those of `reference`, in each round."""
        per_unit = reference.amount / self.amount
        pairs = zip(self.seconds, reference.seconds, strict=True)
        return Spread.of(per_unit * own / other for own, other in pairs)

    def to_dict(self, reference: Measurement | None = None) -> dict[str, Any]:
        """Return all values for JSON, with the ratio to `reference` if there is one."""
        values: dict[str, Any] = {
            "work": self.work,
            "implementation": self.implementation,
            **self.details,
            "unit": self.unit,
            "units_per_round": self.amount,
            "seconds": list(self.seconds),
            "units_per_second": dataclasses.asdict(self.rate),
            "seconds_per_unit": dataclasses.asdict(self.unit_seconds),
        }
        if self.lower_bound is not None:
            values["lower_bound_seconds"] = list(self.lower_bound)
            values["lower_bound_share"] = dataclasses.asdict(self.lower_bound_share)
        if self.peak_memory is not None:
            values["peak_memory_bytes"] = self.peak_memory
        if reference is not None:
            values["compared_with"] = reference.implementation
            values["times_as_long"] = dataclasses.asdict(self.times_as_long(reference))
        return values


def reference_of(
    measurement: Measurement, measurements: Sequence[Measurement], implementation: str
) -> Measurement | None:
    """Return the measurement of `implementation` for the same work.

    Returns:
        None if it is missing or is `measurement` itself, or if it was not measured in the same
        rounds.
    """
    for other in measurements:
        if (other.work, other.implementation) == (measurement.work, implementation):
            if other is measurement:
                return None
            return other if len(other.seconds) == len(measurement.seconds) else None
    return None
