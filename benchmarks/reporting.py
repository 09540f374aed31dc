"""Results of a part: as Markdown tables, as a JSON file and as a picture."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from albert_tf.files import write_text
from benchmarks.machine import describe, today, versions
from benchmarks.measurements import Measurement, reference_of
from benchmarks.pictures import Panel, draw


class Table(NamedTuple):
    """Rows of text under their heads; the first column is words, the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        return "\n".join([f"{self.title}\n", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclasses.dataclass(frozen=True)
class Result:
    """What a part has to say.

    Attributes:
        title: of the picture.
        measurements: all that was timed.
        reference: the way that others are compared with at the same work.
        tables: to be read.
        panels: of the picture; without any, there is none.
        left_out: who or what could not be measured -> why.
        values: further numbers by name.
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
    """Writes NAME.json and NAME.svg, each whole or not at all; returns their paths."""
    content = {
        "part": name,
        "title": result.title,
        "command": command,
        "date": today(),
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
    # All is made before anything is written, so that both are of the same run.
    texts = {"json": json.dumps(content, indent=1) + "\n"}
    if result.panels:
        texts["svg"] = draw(result.title, result.panels)
    for ending, text in texts.items():
        write_text(os.path.join(folder, f"{name}.{ending}"), text)
    return [os.path.join(folder, f"{name}.{ending}") for ending in texts]


def comparison_table(
    title: str, measurements: Sequence[Measurement], reference: str, milliseconds: bool = False
) -> Table:
    """A row for each: its speed, how the reference compares, the floor and memory.

    Args:
        title: above it.
        measurements: in the order of the rows.
        reference: the way that others are compared with.
        milliseconds: whether to give those of a batch instead of sequences a second.
    """
    speed = "milliseconds a batch" if milliseconds else "sequences/s"
    rows = []
    for each in measurements:
        other = reference_of(each, measurements, reference)
        share = each.floor_share
        if milliseconds:
            scale = 1e3 * each.details["batch_size"]
            shown = dataclasses.replace(each.unit_seconds, **_scaled(each.unit_seconds, scale))
        else:
            shown = each.rate
        rows.append(
            (
                each.work,
                each.way,
                format(shown, decimals(shown.median)),
                format(each.times_as_long(other), ".2f") if other else "",
                format(share.median, ".0%") if share else "",
                f"{each.peak_memory / 2**30:.2f}" if each.peak_memory else "",
            )
        )
    heads = ("work", "who", speed, f"{reference} is so many times as fast", "of the floor's rate")
    return Table(title, (*heads, "peak memory, GiB"), rows)


def _scaled(spread, factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in dataclasses.asdict(spread).items()}


def decimals(value: float) -> str:
    """A format that shows about three digits: 0.123, 1.23, 12.3, 123."""
    return f".{max(0, 2 - sum(value >= limit for limit in (10, 100)) + (value < 1))}f"
