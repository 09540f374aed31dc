"""Line charts as SVG text, to be put into a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

INK, GRID = "#1f2933", "#e4e7eb"
COLOURS = ("#2563eb", "#d97706")


class Line(NamedTuple):
    """A curve: its name in the legend, and its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Mark(NamedTuple):
    """A horizontal reference, such as chance, or what held-out documents gave."""

    name: str
    y: float
    colour: str = "#6b7280"


def chart(title: str, lines: Sequence[Line], marks: Sequence[Mark] = (), percent: bool = False):
    """SVG text of a chart over training steps.

    Drawn 360 points wide, so that it can still be read on a telephone.
    """
    style = {"font.size": 12, "svg.fonttype": "none", "font.family": "sans-serif"}
    with pyplot.rc_context({**style, "axes.edgecolor": GRID, "text.color": INK}):
        figure, axes = pyplot.subplots(figsize=(5.0, 3.5), layout="constrained")
        for line, colour in zip(lines, COLOURS, strict=False):
            axes.plot(line.x, line.y, color=colour, linewidth=1.8, label=line.name)
        for mark in marks:
            axes.axhline(mark.y, color=mark.colour, linewidth=1.4, linestyle="--", label=mark.name)
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold")
        axes.set_xlabel("training step")
        axes.grid(axis="y", color=GRID)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
        axes.margins(x=0.01)
        axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
        if percent:
            axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        if len(lines) + len(marks) > 1:
            columns = 1 if percent else 2
            figure.legend(loc="outside lower left", frameon=False, fontsize=11, ncols=columns)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def smooth(values: Sequence[float], weight: float = 0.8) -> list[float]:
    """Exponential moving average, corrected for its start."""
    smoothed, average = [], 0.0
    for number, value in enumerate(values, start=1):
        average = weight * average + (1 - weight) * value
        smoothed.append(average / (1 - weight**number))
    return smoothed
