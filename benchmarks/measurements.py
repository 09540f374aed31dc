"""Measurements, the rates and ratios derived from them, and the files that they are written to."""

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from albert_tf.files import write_text
from benchmarks.interleaving import Spread
from benchmarks.machine import describe, versions
from benchmarks.pictures import Panel, draw


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The times of one implementation for one piece of work.

    Attributes:
        work: name of the work, the same for all that are compared: "base, 8 x 128, float32".
        seconds: of each round.
        amount: units of work in a round.
        unit: unit of the work, in the plural: "sequences", or "batches", whose time is shown.
        lower_bound: lower bound of the seconds of each round; None if it was not measured.
        peak_memory: peak memory of the process in bytes; None if it was not measured.
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

    @property
    def speed(self) -> Spread:
        """What is shown: units per second, or milliseconds per batch."""
        if self.unit != "batches":
            return self.rate
        return Spread.of(1e3 * seconds / self.amount for seconds in self.seconds)

    @property
    def speed_unit(self) -> str:
        return "milliseconds/batch" if self.unit == "batches" else f"{self.unit}/s"

    @property
    def bound(self) -> float | None:
        """What `speed` would be at the lower bound."""
        share = self.lower_bound_share
        if share is None:
            return None
        return self.speed.median * (share.median if self.unit == "batches" else 1 / share.median)

    def in_batches(self) -> "Measurement":
        """Return the same, counted in batches."""
        return dataclasses.replace(self, amount=self.details["steps_per_round"], unit="batches")

    def times_as_long(self, reference: "Measurement") -> Spread:
        """Return seconds per unit over those of `reference`, in each round."""
        per_unit = reference.amount / self.amount
        pairs = zip(self.seconds, reference.seconds, strict=True)
        return Spread.of(per_unit * own / other for own, other in pairs)


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


class Table(NamedTuple):
    """Rows of text under their headings; the first column is text, the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table below its title, if it has one."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        title = [f"{self.title}\n"] if self.title else []
        return "\n".join([*title, *(f"| {' | '.join(line)} |" for line in lines)])


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of a part.

    Attributes:
        panels: panels of the figure; without any there is no figure.
        left_out: what could not be measured -> why.
    """

    title: str
    measurements: Sequence[Measurement]
    tables: Sequence[Table]
    panels: Sequence[Panel] = ()
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def markdown(self) -> str:
        texts = [table.markdown() for table in self.tables]
        texts += [f"Left out: {who}: {reason}" for who, reason in self.left_out.items()]
        return "\n\n".join(texts)


def write(result: Result, folder: str, name: str, command: str, quick: bool) -> list[str]:
    """Write NAME.json and NAME.svg atomically and return their paths."""
    content = {
        "part": name,
        "title": result.title,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "quick": quick,
        "machine": describe(),
        "versions": versions(),
        "left_out": result.left_out,
        "measurements": [dataclasses.asdict(each) for each in result.measurements],
    }
    # Both texts exist before either is written, so that the files belong to the same run.
    texts = {f"{folder}/{name}.json": json.dumps(content, indent=1) + "\n"}
    if result.panels:
        texts[f"{folder}/{name}.svg"] = draw(result.title, result.panels)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def comparison_table(title: str, measurements: Sequence[Measurement], reference: str) -> Table:
    """Return a row per measurement: speed, comparison with the reference, lower bound and memory.

    Args:
        measurements: in the order of the rows, all in the same unit.
        reference: name of the implementation with which the others are compared.
    """
    rows = []
    for each in measurements:
        other = reference_of(each, measurements, reference)
        rows.append(
            (
                each.work,
                each.implementation,
                shown(each.speed),
                format(each.times_as_long(other), ".2f") if other else "",
                format(each.lower_bound_share.median, ".0%") if each.lower_bound_share else "",
                f"{each.peak_memory / 2**30:.2f}" if each.peak_memory else "",
            )
        )
    speed = measurements[0].speed_unit if measurements else "speed"
    heads = ("work", "implementation", speed, f"speed of {reference} / its speed")
    return Table(title, (*heads, "share of the lower bound's rate", "peak memory, GiB"), rows)


def shown(value: Spread) -> str:
    """Return a median and its range with about three digits: 0.123, 1.23, 12.3, 123."""
    digits = sum(value.median >= limit for limit in (10, 100)) - (value.median < 1)
    return format(value, f".{max(0, 2 - digits)}f")
