"""What a report is made of, as data: sections with texts, tables and charts.

All texts are plain: the page escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from albert_tf.report.intervals import Interval

MOST_ERRORS = 20
_MOST_CHARACTERS = 600


class Shade(NamedTuple):
    """A cell of a table with a background; `share` from 0 (none) to 1 (full)."""

    text: str
    share: float


class Table(NamedTuple):
    """A table.

    Attributes:
        columns: headings.
        rows: as many cells as columns; line breaks in a cell are kept.
        numbers: which columns are numbers, set to the right.
        title: heading; "" for none.
        wide: whether it is scrolled sideways on a narrow screen, as a matrix must be; otherwise
            the cells of a row go below one another there.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Shade]]
    numbers: frozenset[int] = frozenset()
    title: str = ""
    wide: bool = False


class Section(NamedTuple):
    """A part of a report.

    Attributes:
        title: heading.
        text: below the heading.
        charts: SVG texts, put into the page as they are.
        tables: after the charts.
        intervals: of results, by their names in eval_results.txt; shown where the results are.
    """

    title: str
    text: str = ""
    charts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    intervals: Mapping[str, Interval] = {}


def error_section(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    count: int,
    numbers: frozenset[int] = frozenset(),
    unit: str = "examples",
) -> Section:
    """The errors of a model, the worst first.

    Args:
        columns: headings.
        rows: of the errors, the worst first; the first `MOST_ERRORS` are shown.
        count: examples that were evaluated.
        numbers: which columns are numbers.
        unit: what was evaluated, in the plural.
    """
    if not rows:
        return Section("Errors", f"None of {count:,} {unit} was guessed wrong.")
    were = "was" if len(rows) == 1 else "were"
    text = f"{len(rows):,} of {count:,} {unit} {were} guessed wrong"
    if len(rows) > MOST_ERRORS:
        text += f"; the {MOST_ERRORS} worst are shown"
    return Section("Worst errors", f"{text}.", tables=[Table(columns, rows[:MOST_ERRORS], numbers)])


def excerpt(text: str, most: int = _MOST_CHARACTERS) -> str:
    """A text, without its middle where it is long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half].rstrip()} [...] {text[-half:].lstrip()}"
