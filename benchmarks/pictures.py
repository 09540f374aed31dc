"""Draws results as SVG: panels of bars."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes

from albert_tf.report.charts import COLORS, GRID, INK, styled_figure, svg_text
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


class Panel(NamedTuple):
    """One drawing.

    Attributes:
        title: title of the panel.
        unit: of what is drawn.
        bars: from top to bottom; those of a group follow each other.
    """

    title: str
    unit: str
    bars: Sequence[Bar]


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return SVG text of panels below each other, readable on a phone, under a title."""
    groups = [len({bar.group for bar in panel.bars}) for panel in panels]
    heights = [
        0.75 + 0.22 * len(panel.bars) + 0.15 * count
        for panel, count in zip(panels, groups, strict=True)
    ]
    bars = [bar for panel in panels for bar in panel.bars]
    names = list(dict.fromkeys(bar.name for bar in bars))
    colors = {name: _COLORS[number % len(_COLORS)] for number, name in enumerate(names)}
    size = (5.4, sum(heights) + 0.9)
    with styled_figure(size, len(panels), height_ratios=heights) as (figure, grid):
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        for axes, panel in zip(grid.flat, panels, strict=True):
            _draw_bars(axes, panel, colors)
        handles: list[matplotlib.artist.Artist] = []
        if len(names) > 1:
            handles += [
                matplotlib.patches.Patch(color=color, alpha=0.75, label=name)
                for name, color in colors.items()
            ]
        if any(bar.lower_bound is not None for bar in bars):
            style = {"color": _LOWER_BOUND, "linestyle": ":", "label": "lower bound"}
            handles.append(matplotlib.lines.Line2D([], [], **style))
        if handles:
            figure.legend(
                handles=handles, loc="outside lower left", frameon=False, fontsize=10, ncols=2
            )
        return svg_text(figure)


def _draw_bars(axes: Axes, panel: Panel, colors: dict[str, str]) -> None:
    ticks: dict[str, list[float]] = {}
    place = 0.0
    for number, (group, name, value, lower_bound) in enumerate(panel.bars):
        if number and group != panel.bars[number - 1].group:
            place += 0.6
        axes.barh(place, value.median, color=colors[name], height=0.85, alpha=0.75)
        if value.high > value.low:
            axes.plot([value.low, value.high], [place, place], color=INK, linewidth=1.2)
        if lower_bound is not None:
            ends = [place - 0.45, place + 0.45]
            axes.plot([lower_bound] * 2, ends, color=_LOWER_BOUND, linestyle=":")
        ticks.setdefault(group, []).append(place)
        place += 1.0
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.tick_params(length=0, which="both")
    axes.set_yticks([sum(each) / len(each) for each in ticks.values()], list(ticks))
    axes.invert_yaxis()
    axes.set_xlabel(panel.unit)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID)
