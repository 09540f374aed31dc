"""The parts of a report as data: sections with texts, tables and charts; tables as text.

Texts are plain text; the page escapes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from albert_tf.report.intervals import Interval

MOST_ERRORS = 20
_MOST_CHARACTERS = 600


class Shade(NamedTuple):
    """A table cell with a shaded background; `share` ranges from 0 (none) to 1 (full)."""

    text: str
    share: float


class Table(NamedTuple):
    """A table.

    Attributes:
        columns: headings.
        rows: cells, as many as columns; line breaks in a cell are kept.
        numbers: indices of numeric columns, which are aligned to the right.
        title: heading; "" for none.
        wide: whether the table scrolls horizontally on a narrow screen, as a matrix must; otherwise
            the cells of a row are stacked there.
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
        text: text below the heading.
        charts: SVG texts, inserted into the page unchanged.
        tables: tables below the charts.
        intervals: name in eval_results.txt -> interval, shown next to the results.
    """

    title: str
    text: str = ""
    charts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    intervals: Mapping[str, Interval] = {}


def text_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], numbers: Collection[int] = ()
) -> str:
    """Return a table as text for the console, without a line break at its end.

    Args:
        columns: headings.
        rows: cells, as many as columns.
        numbers: indices of columns that are aligned to the right.
    """
    lines = [columns, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in numbers else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def error_section(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    count: int,
    numbers: frozenset[int] = frozenset(),
    unit: str = "examples",
) -> Section:
    """Return a section with the errors of a model, worst first.

    Args:
        columns: headings.
        rows: rows for the errors, worst first; the first `MOST_ERRORS` are shown.
        count: number of evaluated examples.
        numbers: indices of numeric columns.
        unit: what was evaluated, in the plural.
    """
    if not rows:
        return Section("Errors", f"All {count:,} {unit} are predicted correctly.")
    verb = "is" if len(rows) == 1 else "are"
    text = f"{len(rows):,} of {count:,} {unit} {verb} predicted incorrectly"
    if len(rows) > MOST_ERRORS:
        text += f"; the {MOST_ERRORS} worst are shown"
    return Section("Worst errors", f"{text}.", tables=[Table(columns, rows[:MOST_ERRORS], numbers)])


def excerpt(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Shorten a long text by leaving out its middle."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half].rstrip()} [...] {text[-half:].lstrip()}"
