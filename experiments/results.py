"""Results of a study: values of each seed, their means and intervals, tables and verdicts."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from benchmarks.measurements import Table
from experiments.study import Column, Study, Variant


class Estimate(NamedTuple):
    """A mean over seeds, or a difference of means, with its 95 % interval; NaN for one seed."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return a mean, with the interval of Student's t."""
        mean = float(np.mean(values))
        if len(values) < 2 or np.ptp(values) == 0:
            same = mean if len(values) > 1 else float("nan")
            return cls(mean, same, same)
        low, high = scipy.stats.ttest_1samp(values, mean).confidence_interval()
        return cls(mean, float(low), float(high))

    @property
    def margin(self) -> float:
        return (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclasses.dataclass(frozen=True)
class Row:
    """A variant's results.

    Attributes:
        values: column heading -> a value for each seed; missing where nothing could be measured.
        curves: for each seed, (step, held-out accuracy of masked tokens).
    """

    name: str
    values: Mapping[str, Sequence[float]]
    curves: Sequence[Sequence[Sequence[float]]] = ()
    paper: Mapping[str, str | float] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        variant: Variant,
        columns: Sequence[Column],
        measured: Mapping[str, Sequence[float]],
        runs: Sequence[Mapping[str, Any]],
    ) -> "Row":
        """Collect what was measured.

        Args:
            measured: values that are not of these runs, by metric.
            runs: of each seed, as from `Run.measured`.
        """
        values = {}
        for column in columns:
            if column.metric in measured:
                values[column.heading] = measured[column.metric]
                continue
            sources = (run["on"].get(column.on, {}) if column.on else run for run in runs)
            found = [source[column.metric] for source in sources if column.metric in source]
            if found:
                values[column.heading] = found
        curves = [run["curve"] for run in runs if run.get("curve")]
        return cls(variant.name, values, curves, variant.paper)

    def estimate(self, column: Column) -> Estimate | None:
        values = self.values.get(column.heading)
        return Estimate.of(values) if values else None


def difference_of(values: Sequence[float], others: Sequence[float]) -> Estimate | None:
    """Return the difference of two means (Welch); None if one of them has a single seed."""
    if min(len(values), len(others)) < 2:
        return None
    if np.ptp(others) == 0:  # such as the reference's speed as a multiple of itself
        return Estimate.of([each - others[0] for each in values])
    if np.ptp(values) == 0:
        return Estimate.of([values[0] - each for each in others])
    low, high = scipy.stats.ttest_ind(values, others, equal_var=False).confidence_interval()
    return Estimate(float(np.mean(values) - np.mean(others)), float(low), float(high))


def verdict(study: Study, rows: Sequence[Row]) -> str:
    """Return whether variants are in the order of the paper: "holds", "partly" or "does not".

    Only pairs count that the paper has numbers for, and whose difference in `study.compared` is
    larger than the spread of the seeds.
    """
    sign = -1 if study.compared.lower_is_better else 1
    heading, theirs = study.compared.heading, study.paper_compared
    known = [row for row in rows if row.values.get(heading) and row.paper.get(theirs) is not None]
    agree = clear = 0
    for one, other in itertools.combinations(known, 2):
        difference = difference_of(one.values[heading], other.values[heading])
        if difference is not None and difference.is_clear:
            clear += 1
            paper = float(one.paper[theirs]) - float(other.paper[theirs])
            agree += sign * difference.mean * paper >= 0
    if not clear:
        return f"open: no clear difference in “{heading}” between models of the paper"
    word = "holds" if agree == clear else "partly" if agree else "does not"
    return f"{word}: {agree} of {clear} clear differences in “{heading}” are as in the paper"


def table(study: Study, rows: Sequence[Row]) -> str:
    """Return Markdown tables: ours with the difference from the reference; the paper's numbers."""
    columns = [column for column in study.columns if any(row.estimate(column) for row in rows)]
    columns.sort(key=lambda column: column is not study.compared)  # where a phone shows it
    theirs = list(dict.fromkeys(name for row in rows for name in row.paper))
    compared = [study.compared] if study.compared in columns and len(rows) > 1 else []
    heads = [column.heading for column in columns]
    heads[1:1] = ["difference" for column in compared]
    reference = next((row for row in rows if row.name == study.reference), rows[0])
    ours = [
        [row.name, *(_cell(column, row) for column in columns[:1])]
        + [_difference(column, row, reference) for column in compared]
        + [_cell(column, row) for column in columns[1:]]
        for row in rows
    ]
    paper = [
        [row.name, *(str(row.paper.get(name, "")) for name in theirs)] for row in rows if row.paper
    ]
    tables = [Table("", ["", *heads], ours), Table("", ["in the paper", *theirs], paper)]
    return "\n\n".join(each.markdown() for each in tables if each.rows)


def _cell(column: Column, row: Row) -> str:
    estimate = row.estimate(column)
    if estimate is None:
        return f"{100 * column.chance:.1f} (chance)" if column.chance is not None else ""
    scale = 100 if column.percent else 1
    mean, margin = scale * estimate.mean, scale * estimate.margin
    if np.isnan(margin) or margin == 0:
        return f"{mean:,.0f}" if mean >= 1000 else f"{mean:.3g}"
    places = 1 if column.percent else max(0, 1 - int(np.floor(np.log10(margin))))
    return f"{mean:,.{places}f} ± {margin:,.{places}f}"


def _difference(column: Column, row: Row, reference: Row) -> str:
    if row is reference:
        return "reference"
    ours, others = (each.values.get(column.heading) for each in (row, reference))
    difference = difference_of(ours, others) if ours and others else None
    if difference is None:
        return ""
    scale = 100 if column.percent else 1
    text = f"{scale * difference.mean:+.3g}"
    return f"**{text}**" if difference.is_clear else f"({text})"
