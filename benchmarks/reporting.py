"""Writes the results of a part as Markdown tables, a JSON file and a figure."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from albert_tf.files import write_text
from benchmarks.machine import describe, versions
from benchmarks.measurements import Measurement, reference_of
from benchmarks.pictures import Panel, draw


class Table(NamedTuple):
    """Rows of text under their headings; the first column is text, the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        return "\n".join([f"{self.title}\n", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of a part.

    Attributes:
        title: title of the figure.
        measurements: everything that was timed.
        reference: name of the implementation with which the others are compared.
        tables: tables to print.
        panels: panels of the figure; without any there is no figure.
        left_out: what could not be measured -> why.
        values: other numbers by name.
    """

    title: str
    measurements: Sequence[Measurement]
    reference: str
    tables: Sequence[Table]
    panels: Sequence[Panel]
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

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
        "values": result.values,
        "measurements": [
            each.to_dict(reference_of(each, result.measurements, result.reference))
            for each in result.measurements
        ],
    }
    # Both texts exist before either is written, so that the files belong to the same run.
    texts = {"json": json.dumps(content, indent=1) + "\n"}
    if result.panels:
        texts["svg"] = draw(result.title, result.panels)
    for ending, text in texts.items():
        write_text(os.path.join(folder, f"{name}.{ending}"), text)
    return [os.path.join(folder, f"{name}.{ending}") for ending in texts]


def comparison_table(
    title: str, measurements: Sequence[Measurement], reference: str, milliseconds: bool = False
) -> Table:
    """Return a row per measurement: speed, comparison with the reference, lower bound and memory.

    Args:
        title: title of the table.
        measurements: in the order of the rows.
        reference: name of the implementation with which the others are compared.
        milliseconds: whether to show milliseconds per batch instead of sequences per second.
    """
    speed = "milliseconds/batch" if milliseconds else "sequences/s"
    rows = []
    for each in measurements:
        other = reference_of(each, measurements, reference)
        share = each.lower_bound_share
        if milliseconds:
            scale = 1e3 * each.details["batch_size"]
            shown = dataclasses.replace(each.unit_seconds, **_scaled(each.unit_seconds, scale))
        else:
            shown = each.rate
        rows.append(
            (
                each.work,
                each.implementation,
                format(shown, decimals(shown.median)),
                format(each.times_as_long(other), ".2f") if other else "",
                format(share.median, ".0%") if share else "",
                f"{each.peak_memory / 2**30:.2f}" if each.peak_memory else "",
            )
        )
    heads = ("work", "implementation", speed, f"speed of {reference} / its speed")
    heads += ("share of the lower bound's rate",)
    return Table(title, (*heads, "peak memory, GiB"), rows)


def _scaled(spread, factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in dataclasses.asdict(spread).items()}


def decimals(value: float) -> str:
    """Return a format for about three significant digits: 0.123, 1.23, 12.3, 123."""
    return f".{max(0, 2 - sum(value >= limit for limit in (10, 100)) + (value < 1))}f"
