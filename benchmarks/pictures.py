"""Draws results as SVG: panels of bars or curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from albert_tf.report.charts import COLORS, GRID, INK, adaptive, styled_figure, svg_text
from benchmarks.interleaving import Spread

_LOWER_BOUND = "#6b7280"
_COLORS = (*COLORS, "#e11d48", "#0891b2")


class Bar(NamedTuple):
    """A median with its range.

    Attributes:
        group: label shared by bars that are compared.
        name: name of the implementation, which determines the color.
        value: median and range.
        lower_bound: bound marked across the bar, or None.
    """

    group: str
    name: str
    value: Spread
    lower_bound: float | None = None


class Curve(NamedTuple):
    """Points with their ranges, or a line without (`low` and `high` the same as `median`)."""

    name: str
    x: Sequence[float]
    y: Sequence[Spread]
    dashed: bool = False


class Panel(NamedTuple):
    """One drawing, of bars or of curves.

    Attributes:
        title: title of the panel.
        unit: of what is drawn.
        bars: from top to bottom; those of a group follow each other.
        curves: with both axes logarithmic.
        x_label: of curves.
    """

    title: str
    unit: str
    bars: Sequence[Bar] = ()
    curves: Sequence[Curve] = ()
    x_label: str = ""


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return SVG text of panels below each other, readable on a phone, under a title."""
    heights = [_height(panel) for panel in panels]
    size = (5.4, sum(heights) + 0.9)
    with styled_figure(size, len(panels), height_ratios=heights) as (figure, grid):
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        names = list(dict.fromkeys(bar.name for panel in panels for bar in panel.bars))
        for axes, panel in zip(grid.flat, panels, strict=True):
            axes.set_title(panel.title, loc="left", fontsize=11)
            axes.tick_params(length=0, which="both")
            if panel.bars:
                _draw_bars(axes, panel, names)
            else:
                _draw_curves(axes, panel)
        _legend(figure, names, panels)
        return adaptive(svg_text(figure))


def _height(panel: Panel) -> float:
    groups = len({bar.group for bar in panel.bars})
    return 0.75 + 0.22 * len(panel.bars) + 0.15 * groups if panel.bars else 3.0


def _draw_bars(axes: Axes, panel: Panel, names: list[str]) -> None:
    ticks: dict[str, list[float]] = {}
    place = 0.0
    for number, bar in enumerate(panel.bars):
        if number and bar.group != panel.bars[number - 1].group:
            place += 0.6
        value = bar.value
        axes.barh(place, value.median, color=_color(names, bar.name), height=0.85, alpha=0.75)
        if value.high > value.low:
            axes.plot([value.low, value.high], [place, place], color=INK, linewidth=1.2)
        if bar.lower_bound is not None:
            axes.plot(
                [bar.lower_bound] * 2,
                [place - 0.45, place + 0.45],
                color=_LOWER_BOUND,
                linestyle=":",
            )
        ticks.setdefault(bar.group, []).append(place)
        place += 1.0
    axes.set_yticks([sum(each) / len(each) for each in ticks.values()], list(ticks))
    axes.invert_yaxis()
    axes.set_xlabel(panel.unit)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID)


def _draw_curves(axes: Axes, panel: Panel) -> None:
    for number, curve in enumerate(panel.curves):
        color = _LOWER_BOUND if curve.dashed else _COLORS[number]
        middle = [value.median for value in curve.y]
        style = {"linestyle": "--"} if curve.dashed else {"marker": "o", "markersize": 4}
        axes.plot(curve.x, middle, color=color, linewidth=1.6, label=curve.name, **style)
        for x, value in zip(curve.x, curve.y, strict=True):
            if value.high > value.low:
                axes.plot([x, x], [value.low, value.high], color=INK, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    places = sorted({x for curve in panel.curves for x in curve.x})
    axes.set_xticks(places, [f"{x:g}" for x in places])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.unit)
    if len(panel.curves) > 1:
        axes.legend(frameon=False, fontsize=9)


def _legend(figure: Figure, names: list[str], panels: Sequence[Panel]) -> None:
    """Draw a legend of the bars' colors, if there are several, and of the lower bound."""
    handles = []
    if len(names) > 1:
        handles = [
            matplotlib.patches.Patch(color=_color(names, name), alpha=0.75, label=name)
            for name in names
        ]
    if any(bar.lower_bound is not None for panel in panels for bar in panel.bars):
        line = matplotlib.lines.Line2D(
            [], [], color=_LOWER_BOUND, linestyle=":", label="lower bound"
        )
        handles.append(line)
    if handles:
        figure.legend(
            handles=handles, loc="outside lower left", frameon=False, fontsize=10, ncols=2
        )


def _color(names: list[str], name: str) -> str:
    return _COLORS[names.index(name) % len(_COLORS)]
