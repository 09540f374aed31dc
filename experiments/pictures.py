"""Pictures of results, as SVG text that is readable on a phone."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from albert_tf.report.charts import COLORS, GRID, drawing, svg_text
from experiments.results import Estimate, Row
from experiments.study import OWN, Column, Curves, Dots, Relation, Study

_COLORS = (*COLORS, "#e11d48", "#0891b2", "#4d7c0f", "#6b7280")


def draw(study: Study, picture: Dots | Relation | Curves, rows: Sequence[Row]) -> str | None:
    """Return SVG text; None if nothing of it was measured."""
    if isinstance(picture, Dots):
        return _dots(study, picture.y, rows)
    if isinstance(picture, Relation):
        return _relation(study, picture, rows)
    return _curves(study, picture, rows)


def name_of(picture: Dots | Relation | Curves) -> str:
    """Return the name of the file, without its ending; different for all pictures of a study."""
    y = picture.y.metric
    if picture.y.on not in (None, OWN):
        y = f"{y}-on-{picture.y.on}"
    if isinstance(picture, Relation):
        return f"{y}-by-{picture.x.metric}"
    return f"curves-{y}" if isinstance(picture, Curves) else y


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


def _dots(study: Study, column: Column, rows: Sequence[Row]) -> str | None:
    measured = _measured(column, rows)
    if not measured:
        return None
    height = 1.3 + 0.34 * len(measured)
    with drawing(study.title, column.heading, height) as (figure, axes):
        for place, (_, estimate) in enumerate(measured):
            axes.errorbar(
                estimate.mean, place, xerr=_error(estimate), color=COLORS[0], fmt="o", capsize=4
            )
        if column.chance is not None:
            chance = 100 * column.chance if column.percent else column.chance
            axes.axvline(chance, color="#6b7280", linestyle="--", linewidth=1.2)
            axes.annotate(
                "chance", (chance, -0.7), (4, 0), textcoords="offset points", fontsize=10,
                va="center",
            )  # fmt: skip
        axes.set_yticks(range(len(measured)), [row.name for row, _ in measured])
        axes.set_ylim(len(measured) - 0.5, -0.5 if column.chance is None else -1.1)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        return svg_text(figure)


def _relation(study: Study, picture: Relation, rows: Sequence[Row]) -> str | None:
    by_x = {row.name: estimate for row, estimate in _measured(picture.x, rows)}
    points = [
        (row.name, by_x[row.name], estimate)
        for row, estimate in _measured(picture.y, rows)
        if row.name in by_x
    ]
    if not points:
        return None
    with drawing(study.title, picture.x.heading, 3.7 + 0.2 * len(points)) as (figure, axes):
        for number, (name, x, y) in enumerate(points):
            axes.errorbar(
                x.mean, y.mean, yerr=_error(y), color=_color(number), marker=_marker(number),
                linestyle="", capsize=4, label=name,
            )  # fmt: skip
        axes.set_ylabel(picture.y.heading)
        axes.set_xscale("log")
        axes.margins(x=0.1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        _legend(figure)
        return svg_text(figure)


def _curves(study: Study, picture: Curves, rows: Sequence[Row]) -> str | None:
    rows = [row for row in rows if row.curves]
    if not rows:
        return None
    with drawing(study.title, "training step", 3.7 + 0.2 * len(rows)) as (figure, axes):
        for number, row in enumerate(rows):
            points = min(len(curve) for curve in row.curves)
            curves = np.array([curve[:points] for curve in row.curves], float)
            steps, values = curves[0, :, 0], 100 * curves[:, :, 1]
            style = {"color": _color(number), "linestyle": _line(number)}
            axes.plot(steps, values.mean(0), linewidth=2.2, label=row.name, **style)
            for seed in values if len(values) > 1 else ():
                axes.plot(steps, seed, linewidth=0.8, alpha=0.5, **style)
        axes.set_ylabel(picture.y.heading)
        axes.margins(x=0.01)
        _legend(figure)
        return svg_text(figure)


def _legend(figure) -> None:
    figure.legend(loc="outside lower left", frameon=False, fontsize=10, ncols=2)


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def _line(number: int) -> str:
    return ("-", "--", ":", "-.")[number // len(_COLORS) % 4]


def _marker(number: int) -> str:
    return "os^vD"[number // len(_COLORS) % 5]
