"""A report as one self-contained HTML file: styles and charts inside, no script."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import jinja2

from albert_tf.files import write_text
from albert_tf.logs import counted
from albert_tf.report.sections import SHOWN_CARDS, Section, Shade

REPORT_FILE = "report.html"

_logger = logging.getLogger(__name__)


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
