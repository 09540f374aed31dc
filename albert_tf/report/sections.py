"""A report: its parts as data, and the self-contained HTML file that shows them, without scripts.

Texts of sections, tables and examples are plain text; the page escapes them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf.files import write_text
from albert_tf.logs import counted

if TYPE_CHECKING:
    import jinja2
    import numpy as np

    from albert_tf.report.intervals import Interval

_logger = logging.getLogger(__name__)

REPORT_FILE = "report.html"
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


def table(
    columns: Mapping[str, str], rows: Iterable[Sequence[Any]], title: str = "", folded: str = ""
) -> Table:
    """Return a table of values.

    Args:
        columns: heading -> format of its values, such as ".1%"; "" for a column of texts, ">" for
            texts that are aligned to the right, as numbers are.
        rows: values, as many as columns; a text or `Shade` stays as it is, and None is an empty
            cell.
        title, folded: as of `Table`.
    """

    def cell(value: Any, form: str) -> str | Shade:
        if isinstance(value, (str, Shade)):
            return value
        return "" if value is None else format(value, form)

    cells = [tuple(map(cell, row, columns.values())) for row in rows]
    numbers = frozenset(number for number, form in enumerate(columns.values()) if form)
    return Table(list(columns), cells, numbers, title, folded)


def matrix(columns: Sequence[str], counts: Mapping[str, Sequence[int]], title: str = "") -> Table:
    """Return a table of counts, each shaded by its share of its row.

    The columns are headings, the first of which is that of the rows' names.
    """
    rows: list[tuple[str | Shade, ...]] = [
        (name, *(Shade(f"{count:,}", count / max(sum(row), 1)) for count in row))
        for name, row in counts.items()
    ]
    return Table(columns, rows, frozenset(range(1, len(columns))), title, wide=True)


def table_of(rows: Sequence[Mapping[str, Any]], digits: int, title: str = "") -> Table:
    """Return a table of rows with the same keys, the headings; fractions have so many digits."""

    def cell(value: Any) -> str:
        return f"{value:.{digits}g}" if isinstance(value, float) else str(value)

    cells = [["" if value is None else cell(value) for value in row.values()] for row in rows]
    numbers = (n for n, value in enumerate(rows[0].values()) if isinstance(value, (int, float)))
    return Table(list(rows[0]), cells, frozenset(numbers), title)


def to_tsv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of rows with the same keys, the headings, for a file."""
    columns, cells, *_ = table_of(rows, 8)
    return "".join("\t".join(map(str, line)) + "\n" for line in (columns, *cells))


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

    Columns whose indices are `numbers` are aligned to the right.
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
    columns: Mapping[str, str], rows: Sequence[Sequence[Any]], count: int, unit: str = "examples"
) -> Section:
    """Return a section with the errors of a model, worst first, among `count` evaluated examples.

    The first `MOST_ERRORS` rows are in a table, as of `table`, those after `SHOWN_CARDS` folded.
    """
    note = f"The {MOST_ERRORS} worst are listed." if len(rows) > MOST_ERRORS else ""
    return counted_errors(len(rows), count, unit, note, tables=error_tables(columns, rows))


def error_tables(
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
    shown: int = SHOWN_CARDS,
    title: str = "",
) -> list[Table]:
    """Return a table of the first errors, and a folded one of more of them."""
    tables = [table(columns, rows[:shown], title)]
    if more := rows[shown:MOST_ERRORS]:
        tables.append(table(columns, more, folded=f"{len(more)} more"))
    return tables


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


class Headline(NamedTuple):
    """A result in large type: its name, its value, notes below it, and a warning; "" for none."""

    name: str
    value: str
    notes: Sequence[str] = ()
    warning: str = ""


class Page(NamedTuple):
    """The content of a page, from top to bottom.

    Attributes:
        title: heading: task, data and model.
        subtitle: line below the heading.
        headlines: the most important results.
        sections: everything else. Columns of tables without any text are left out.
        command: the command that created the report.
        versions: program or library -> version.
    """

    title: str
    subtitle: str
    headlines: Sequence[Headline]
    sections: Sequence[Section]
    command: str
    versions: Sequence[tuple[str, str]]


def render(page: Page) -> str:
    """Return the HTML text of a page."""
    sections = [
        each._replace(tables=[table.without_empty_columns() for table in each.tables])
        for each in page.sections
    ]
    content = page._replace(sections=sections)._asdict()
    return html_template("albert_tf.report", "report.html.j2").render(content, shown=SHOWN_CARDS)


def write_page(path: str, page: Page) -> None:
    """Write a page as an HTML file."""
    write_text(path, render(page))
    _logger.info("report in %s", path)


def html_template(package: str, name: str) -> jinja2.Template:
    """Return a template of a package; values in it are escaped, and all must be given."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.tests["shade"] = lambda cell: isinstance(cell, Shade)
    return environment.get_template(name)
