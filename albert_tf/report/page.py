"""A report as one self-contained HTML file: styles and charts inside, no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jinja2

from albert_tf.logs import counted
from albert_tf.report.sections import Section, Shade


class Result(NamedTuple):
    """A row of the results: name, value and interval as displayed; "" if there is none."""

    name: str
    value: str
    interval: str = ""
    method: str = ""


class Page(NamedTuple):
    """The content of a page, from top to bottom.

    Attributes:
        title: heading.
        subtitle: line below the heading.
        headline: result to show in large type; None for none.
        results: all results.
        sections: everything else.
        command: the command that created the report.
        settings: every option and its value.
        versions: program or library -> version.
    """

    title: str
    subtitle: str
    headline: Result | None
    results: Sequence[Result]
    sections: Sequence[Section]
    command: str
    settings: Sequence[tuple[str, str]]
    versions: Sequence[tuple[str, str]]


def render(page: Page) -> str:
    """Return the HTML text of a page."""
    return html_template("albert_tf.report", "report.html.j2").render(page._asdict())


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
