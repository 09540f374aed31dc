"""A report as one self-contained HTML file: styles and charts inside, no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jinja2

from albert_tf.report.sections import Section, Shade


class Result(NamedTuple):
    """A line of the results: name, value and interval as they are to be read, "" for none."""

    name: str
    value: str
    interval: str = ""
    method: str = ""


class Page(NamedTuple):
    """What a page shows, from top to bottom.

    Attributes:
        title: heading.
        subtitle: below it.
        headline: the result shown large; None for none.
        results: all results.
        sections: everything else.
        command: the command that made it.
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
    """The HTML text of a page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("albert_tf.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["shade"] = lambda cell: isinstance(cell, Shade)
    return environment.get_template("report.html.j2").render(page._asdict())
