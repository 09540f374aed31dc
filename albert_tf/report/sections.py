"""The parts of a report as data: sections with texts, tables and charts; tables as text.

Texts are plain text; the page escapes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from albert_tf.report.intervals import Interval

MOST_ERRORS = 20
SHOWN_CARDS = 8
MARKED = "Marked are the answer, with a solid line, and the prediction, dashed."
_MOST_CHARACTERS = 600
# Characters in a line on a phone, and those that the margins of a cell take.
_MOST_NARROW, _MARGIN = 47, 3


class Shade(NamedTuple):
    """A table cell with a shaded background; `share` ranges from 0 (none) to 1 (full)."""

    text: str
    share: float

    @classmethod
    def of(cls, chosen: np.ndarray) -> Shade:
        """Return the share of what is chosen, and its number."""
        return cls(f"{chosen.mean():.1%} ({chosen.sum():,})", float(chosen.mean()))


class Table(NamedTuple):
    """A table.

    Attributes:
        columns: headings.
        rows: cells, as many as columns; line breaks in a cell are kept.
        numbers: indices of numeric columns, which are aligned to the right.
        title: heading; "" for none.
        folded: text to click for the table, which is hidden until then; "" to show it.
        wide: whether the table scrolls horizontally on a narrow screen, as a matrix must; otherwise
            the cells of a row are stacked there.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Shade]]
    numbers: frozenset[int] = frozenset()
    title: str = ""
    folded: str = ""
    wide: bool = False

    @property
    def narrow(self) -> bool:
        """Whether the table fits on a phone as it is."""
        width = 0
        for name, *cells in zip(self.columns, *self.rows, strict=True):
            # Headings break between words.
            texts = [*name.split(), *(getattr(cell, "text", cell) for cell in cells)]
            width += max(map(len, texts), default=0) + _MARGIN
        return width <= _MOST_NARROW

    def without_empty_columns(self) -> Table:
        """Return the table without the columns that have no text in any row."""
        kept = [
            number
            for number in range(len(self.columns))
            if any(getattr(row[number], "text", row[number]) for row in self.rows)
        ]
        return self._replace(
            columns=[self.columns[number] for number in kept],
            rows=[[row[number] for number in kept] for row in self.rows],
            numbers=frozenset(new for new, old in enumerate(kept) if old in self.numbers),
        )


class Part(NamedTuple):
    """A part of a text; `marks`: "truth", "prediction", both with a space between them, or ""."""

    text: str
    marks: str = ""


class Card(NamedTuple):
    """An example: a heading, facts about it as (name, text), and a text with marked parts."""

    title: str
    facts: Sequence[tuple[str, Sequence[Part]]]
    text: Sequence[Part] = ()


class Section(NamedTuple):
    """A part of a report.

    Attributes:
        title: heading.
        text: text below the heading.
        charts: SVG texts, inserted into the page unchanged.
        tables: tables below the charts.
        cards: examples below the tables; the first `SHOWN_CARDS` are shown, the others folded.
        intervals: name in eval_results.txt -> interval, shown next to the results.
    """

    title: str
    text: str = ""
    charts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    cards: Sequence[Card] = ()
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
    note = f"The {MOST_ERRORS} worst are listed." if len(rows) > MOST_ERRORS else ""
    tables = [Table(columns, rows[:MOST_ERRORS], numbers)]
    return counted_errors(len(rows), count, unit, note, tables=tables)


def counted_errors(errors: int, count: int, unit: str, note: str, **shown: Any) -> Section:
    """Return a section that counts the errors, with a note and what is `shown` if there are any."""
    if not errors:
        return Section("Errors", f"All {count:,} {unit} are predicted correctly.")
    verb = "is" if errors == 1 else "are"
    text = f"{errors:,} of {count:,} {unit} {verb} predicted incorrectly. {note}"
    return Section("Worst errors", text.rstrip(), **shown)


def marked_parts(text: str, spans: Sequence[tuple[int, int, str]]) -> list[Part]:
    """Split a text at the ends of spans (start, end, mark), which may overlap."""
    edges = sorted({0, len(text), *(edge for start, end, _ in spans for edge in (start, end))})
    return [
        Part(text[a:b], " ".join(dict.fromkeys(m for s, e, m in spans if s <= a and b <= e)))
        for a, b in itertools.pairwise(edges)
    ]


def excerpt(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Shorten a long text by leaving out its middle."""
    if len(text) <= most:
        return text
    half = most // 2
    # Whole words, where there are spaces.
    start, end = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
    return f"{start or text[:half]} [...] {end or text[-half:]}"
