"""Draws results as SVG: panels of bars."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes

from albert_tf.report.charts import COLORS, GRID, INK, styled_figure, svg_text
from benchmarks.interleaving import Spread

_COLORS = (*COLORS, "#e11d48", "#0891b2")


class Bar(NamedTuple):
    """A median with its range.

    Attributes:
        group: label shared by bars that are compared.
        name: name of the implementation, which determines the color.
        limit: what matrix products alone would reach, or None.
    """

    group: str
    name: str
    value: Spread
    limit: float | None = None


class Panel(NamedTuple):
    """One drawing.

    Attributes:
        unit: of what is drawn.
        bars: from top to bottom; those of a group follow each other.
        start: where bars start: 1 for ratios to the first implementation, which has no bars.
    """

    title: str
    unit: str
    bars: Sequence[Bar]
    start: float = 0.0


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return SVG text of panels below each other, readable on a phone, under title and legend."""
    groups = [len({bar.group for bar in panel.bars}) for panel in panels]
    heights = [
        0.75 + 0.22 * len(panel.bars) + 0.15 * count
        for panel, count in zip(panels, groups, strict=True)
    ]
    bars = [bar for panel in panels for bar in panel.bars]
    colors = _COLORS[1:] if panels[0].start else _COLORS
    of_names = dict(zip(dict.fromkeys(bar.name for bar in bars), colors, strict=False))
    size = (5.4, sum(heights) + 0.9)
    with styled_figure(size, len(panels), height_ratios=heights) as (figure, grid):
        for axes, panel in zip(grid.flat, panels, strict=True):
            _draw_bars(axes, panel, of_names)
        handles: list[matplotlib.artist.Artist] = [
            matplotlib.patches.Patch(color=color, alpha=0.75, label=name)
            for name, color in of_names.items()
        ]
        if any(bar.limit is not None for bar in bars):
            line = matplotlib.lines.Line2D([], [], color=INK, label="limit of matrix products")
            handles.append(line)
        legend = figure.legend(
            handles=handles, title=title, loc="outside upper left", frameon=False, fontsize=11,
            ncols=2, alignment="left", borderaxespad=0.2,
        )  # fmt: skip
        legend.get_title().set(fontsize=13, fontweight="bold")
        return svg_text(figure)


def _draw_bars(axes: Axes, panel: Panel, colors: dict[str, str]) -> None:
    groups: dict[str, list[tuple[float, Bar]]] = {}
    place = 0.0
    for number, bar in enumerate(panel.bars):
        if number and bar.group != panel.bars[number - 1].group:
            place += 0.6
        value, low, high = bar.value.median, bar.value.low, bar.value.high
        axes.barh(
            place, value - panel.start, left=panel.start, color=colors[bar.name], height=0.85,
            alpha=0.75,
        )  # fmt: skip
        if high > low:
            axes.plot([low, high], [place, place], color=INK, linewidth=1.2)
        if panel.start:
            offset = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{value:.2f}", (high, place), fontsize=10, **offset)
        groups.setdefault(bar.group, []).append((place, bar))
        place += 1.0
    for of_group in groups.values():
        limits = [bar.limit for _, bar in of_group if bar.limit is not None]
        if limits:
            ends = [of_group[0][0] - 0.5, of_group[-1][0] + 0.5]
            axes.plot([statistics.median(limits)] * 2, ends, color=INK, linewidth=1.8)
    axes.set_title(panel.title, loc="left", fontsize=12)
    axes.tick_params(length=0, which="both")
    axes.set_yticks([(of[0][0] + of[-1][0]) / 2 for of in groups.values()], list(groups))
    axes.invert_yaxis()
    axes.set_xlabel(panel.unit)
    axes.set_xlim(left=panel.start, right=1.08 * axes.get_xlim()[1] if panel.start else None)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID)
