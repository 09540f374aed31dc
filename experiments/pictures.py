"""Pictures of results, as SVG text that is readable on a phone."""

import textwrap
from collections.abc import Sequence

import numpy as np

from albert_tf.report.charts import COLORS, GRID, SOFT, chart, drawing, svg_text
from experiments.results import Row
from experiments.study import MASKED_LM, Column, Study


def draw(study: Study, rows: Sequence[Row], title: str | None = None) -> str | None:
    """Return SVG text of a study's results; None if nothing of it was measured.

    The title, such as what was found, is of several lines if it is long; by default the study's.
    """
    title = textwrap.fill(title or study.title, 44)
    return _dots(title, study.picture, rows) if study.picture else _curves(title, rows)


def _dots(title: str, column: Column, rows: Sequence[Row]) -> str | None:
    measured = [(row.name, row.estimate(column)) for row in rows if row.estimate(column)]
    if not measured:
        return None
    scale = 100 if column.percent else 1
    with drawing("", column.heading, 1.3 + 0.34 * len(measured)) as (figure, axes):
        # Over the whole width, wherever the axes begin.
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        for place, (_, estimate) in enumerate(measured):
            margin = np.nan_to_num(estimate.margin)
            look = {"color": COLORS[0], "fmt": "o", "capsize": 4}
            axes.errorbar(scale * estimate.mean, place, xerr=scale * margin, **look)
        if column.chance is not None:
            axes.axvline(scale * column.chance, color=SOFT, linestyle="--", linewidth=1.2)
            axes.annotate(
                "chance", (scale * column.chance, -0.7), (4, 0), textcoords="offset points",
                fontsize=11, va="center",
            )  # fmt: skip
        axes.set_yticks(range(len(measured)), [name for name, _ in measured])
        axes.set_ylim(len(measured) - 0.5, -0.5 if column.chance is None else -1.1)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        return svg_text(figure)


def _curves(title: str, rows: Sequence[Row]) -> str | None:
    lines = []
    for row in rows:
        if row.curves:
            points = min(map(len, row.curves))
            steps, shares = np.mean([curve[:points] for curve in row.curves], axis=0).T
            lines.append((row.name, steps.tolist(), shares.tolist()))
    return chart(f"{title}\n{MASKED_LM.heading}", lines, percent=True) if lines else None
