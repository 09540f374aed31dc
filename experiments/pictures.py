"""Pictures of results, as SVG text that is readable on a phone."""

import textwrap
from collections.abc import Sequence

import numpy as np

from albert_tf.report.charts import COLORS, GRID, drawing, svg_text
from experiments.results import Estimate, Row
from experiments.study import Column, Curves, Study

_COLORS = (*COLORS, "#e11d48", "#0891b2", "#4d7c0f", "#6b7280")


def draw(study: Study, rows: Sequence[Row], title: str | None = None) -> str | None:
    """Return SVG text; None if nothing of it was measured.

    Args:
        study: whose picture is drawn.
        rows: its results.
        title: such as what was found, of several lines if it is long; by default the study's.
    """
    title = title or study.title
    if isinstance(study.picture, Curves):
        return _curves(title, study.picture.y, rows)
    return _dots(title, study.picture.y, rows)


def _shown(column: Column, estimate: Estimate) -> Estimate:
    scale = 100 if column.percent else 1
    return Estimate(*(scale * value for value in estimate))


def _measured(column: Column, rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    found = ((row, row.estimate(column)) for row in rows)
    return [(row, _shown(column, estimate)) for row, estimate in found if estimate is not None]


def _error(estimate: Estimate) -> list[list[float]] | None:
    if np.isnan(estimate.low):
        return None
    return [[estimate.mean - estimate.low], [estimate.high - estimate.mean]]


def _dots(title: str, column: Column, rows: Sequence[Row]) -> str | None:
    measured = _measured(column, rows)
    if not measured:
        return None
    height = 1.3 + 0.34 * len(measured)
    with drawing("", column.heading, height) as (figure, axes):
        _write_title(figure, title)
        for place, (_, estimate) in enumerate(measured):
            axes.errorbar(
                estimate.mean, place, xerr=_error(estimate), color=COLORS[0], fmt="o", capsize=4
            )
        if column.chance is not None:
            chance = 100 * column.chance if column.percent else column.chance
            axes.axvline(chance, color="#6b7280", linestyle="--", linewidth=1.2)
            axes.annotate(
                "chance", (chance, -0.7), (4, 0), textcoords="offset points", fontsize=11,
                va="center",
            )  # fmt: skip
        axes.set_yticks(range(len(measured)), [row.name for row, _ in measured])
        axes.set_ylim(len(measured) - 0.5, -0.5 if column.chance is None else -1.1)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        return svg_text(figure)


def _curves(title: str, column: Column, rows: Sequence[Row]) -> str | None:
    rows = [row for row in rows if row.curves]
    if not rows:
        return None
    with drawing("", "training step", 3.7 + 0.2 * len(rows)) as (figure, axes):
        _write_title(figure, title)
        for number, row in enumerate(rows):
            points = min(len(curve) for curve in row.curves)
            curves = np.array([curve[:points] for curve in row.curves], float)
            steps, values = curves[0, :, 0], 100 * curves[:, :, 1]
            style = {"color": _color(number), "linestyle": _line(number)}
            axes.plot(steps, values.mean(0), linewidth=2.2, label=row.name, **style)
            for seed in values if len(values) > 1 else ():
                axes.plot(steps, seed, linewidth=0.8, alpha=0.5, **style)
        axes.set_ylabel(column.heading)
        axes.margins(x=0.01)
        figure.legend(loc="outside lower left", frameon=False, ncols=2)
        return svg_text(figure)


def _write_title(figure, title: str) -> None:
    """Write a title over the whole width, wherever the axes begin."""
    lines = textwrap.fill(title, 44)
    figure.suptitle(lines, x=0.01, ha="left", fontsize=13, fontweight="bold")


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def _line(number: int) -> str:
    return ("-", "--", ":", "-.")[number // len(_COLORS) % 4]
