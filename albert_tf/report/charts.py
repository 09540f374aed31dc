"""Charts as SVG text for a page, 360 points wide so that they are readable on a phone.

Matplotlib is slow to load, so it is loaded when something is drawn.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, GRID = "#1f2933", "#e4e7eb"
COLORS = ("#2563eb", "#d97706", "#047857", "#9333ea")
BAR, SOFT = "#bfdbfe", "#6b7280"
# What a reader in dark mode sees instead of a color; other colors contrast with both backgrounds.
_IN_THE_DARK = {
    "#ffffff": "transparent",  # the page shows through
    INK: "#e4e7eb",
    BAR: "#1e3a6e",
    GRID: "#323f4b",
    COLORS[0]: "#7aa7ff",
    COLORS[2]: "#34d399",
    COLORS[3]: "#c084fc",
}

# Text is kept as text; a fixed salt gives the same identifiers, and so the same file, every time.
STYLE: dict[Any, Any] = {
    "font.size": 12,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "albert_tf",
    "axes.edgecolor": GRID,
    "text.color": INK,
    "text.parse_math": False,
}

# Points of a curve of `draw_curves`, whose training losses are smoothed.
_MOST_POINTS = 400
SMOOTHED = "Curves of training are moving averages over the logged steps."


# A curve: its name in the legend, and the coordinates of its points.
Line = tuple[str, Sequence[float], Sequence[float]]


class Bar(NamedTuple):
    """A value with its interval."""

    name: str
    value: float
    low: float
    high: float


def chart(
    title: str,
    lines: Sequence[Line],
    marks: Sequence[tuple[str, float]] = (),
    percent: bool = False,
    x_label: str = "training step",
    chosen: float | None = None,
    named_at_ends: bool = False,
) -> str:
    """Draw curves over training steps as SVG text; a curve of one point is drawn as a point.

    Args:
        marks: names and values of horizontal reference lines.
        percent: whether values are shares, shown in percent.
        chosen: where to draw a vertical dotted line, such as the step of a checkpoint.
        named_at_ends: whether names and last values of shares are at the curves instead of in a
            legend.
    """
    from matplotlib.ticker import MaxNLocator

    with drawing(title, x_label) as (figure, axes):
        # Further curves take the same colors, in another style.
        looks = itertools.cycle(itertools.product(("-", ":", "-."), COLORS))
        for (name, x, y), (style, color) in zip(lines, looks, strict=False):
            point = "o" if len(x) == 1 else None
            (curve,) = axes.plot(x, y, color=color, linewidth=1.8, marker=point)
            curve.set(linestyle=style, label=name)
        for name, value in marks:
            axes.axhline(value, color=SOFT, linewidth=1.4, linestyle="--", label=name)
        if chosen is not None:
            axes.axvline(chosen, color=SOFT, linewidth=1.4, linestyle=":")
        axes.margins(x=0.01)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        if percent:
            _in_percent(axes.yaxis)
        if named_at_ends:
            for (name, x, y), curve in zip(lines, axes.lines, strict=False):
                # Below the curve, if another one ends closely above.
                below = any(0 < other[-1] - y[-1] < 0.06 for _, _, other in lines)
                axes.annotate(
                    f"{name} {y[-1]:.1%}", (x[-1], y[-1]), (0, -12 if below else 5),
                    textcoords="offset points", ha="right", va="top" if below else "bottom",
                    color=curve.get_color(), fontsize=11,
                )  # fmt: skip
            axes.margins(y=0.12)
        elif len(lines) + len(marks) > 1:
            columns = 1 if percent else 2
            figure.legend(loc="outside lower left", frameon=False, fontsize=11, ncols=columns)
        return svg_text(figure)


class Curve(NamedTuple):
    """A quantity over the steps of a run.

    Attributes:
        name: in the legend.
        rows: of a log, each with its `step`, and perhaps with the quantity.
        quantity: name of the values.
        smoothed: whether their moving average is drawn.
        scale: what they are divided by.
    """

    name: str
    rows: Sequence[Mapping[str, float]]
    quantity: str
    smoothed: bool = False
    scale: float = 1


def draw_curves(
    title: str,
    curves: Sequence[Curve],
    marks: Sequence[tuple[str, float]] = (),
    percent: bool = False,
    chosen: float | None = None,
    fewest: int = 1,
) -> list[str]:
    """Return a chart as SVG text, or nothing if every curve has fewer than the `fewest` points.

    Other arguments are those of `chart`.
    """
    points = [
        [(row["step"], row[c.quantity] / c.scale) for row in c.rows if c.quantity in row]
        for c in curves
    ]
    if max(map(len, points), default=0) < fewest:
        return []
    lines = []
    for curve, places in zip(curves, points, strict=True):
        if places:
            steps, values = zip(*places, strict=True)
            y = smooth(values) if curve.smoothed else values
            lines.append((curve.name, thinned(steps, _MOST_POINTS), thinned(y, _MOST_POINTS)))
    return [chart(title, lines, marks, percent, chosen=chosen)]


def bars(title: str, values: Sequence[Bar], x_label: str) -> str:
    """Draw a bar with its interval for each value, as SVG text."""
    with drawing(title, x_label) as (figure, axes):
        places = range(len(values))
        axes.bar(places, [bar.value for bar in values], color=BAR, width=0.6)
        _draw_intervals(axes, places, values, "o", 4)
        many: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(places, [bar.name for bar in values], **many if len(values) > 6 else {})
        return svg_text(figure)


def _draw_intervals(
    axes: Axes, x: Sequence[float], values: Sequence[Bar], form: str, size: int
) -> None:
    """Draw shares with their intervals."""
    errors = np.maximum([[b.value - b.low for b in values], [b.high - b.value for b in values]], 0)
    heights = [bar.value for bar in values]
    axes.errorbar(x, heights, errors, color=COLORS[0], fmt=form, capsize=4, markersize=size)
    axes.set_ylim(0, 1.02)
    _in_percent(axes.yaxis)


def scatter(
    title: str,
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    x_label: str,
    y_label: str,
) -> str:
    """Draw points and the line of equal values, as SVG text."""
    with drawing(title, x_label) as (figure, axes):
        low, high = min(*x, *y), max(*x, *y)
        axes.plot([low, high], [low, high], color=SOFT, linewidth=1.2, linestyle="--")
        # Thousands of points become a bitmap; as vectors they would take megabytes.
        rasterized = len(x) > 2000
        axes.scatter(x, y, s=10, color=COLORS[0], alpha=0.5, linewidth=0, rasterized=rasterized)
        axes.set_ylabel(y_label)
        return svg_text(figure)


def reliability(bins: Sequence[Bar]) -> str:
    """Draw accuracy by the confidence that names a bin, and the line of equal values, as SVG."""
    with drawing("Reliability", "confidence") as (figure, axes):
        axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1.2, linestyle="--")
        _draw_intervals(axes, [float(each.name) for each in bins], bins, "o-", 5)
        _in_percent(axes.xaxis)
        axes.set_ylabel("accuracy")
        return svg_text(figure)


def _in_percent(axis: Axis) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


@contextlib.contextmanager
def drawing(title: str, x_label: str, height: float = 3.5) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure of 5 inches by a `height`, with a title, and its axes; the block saves it."""
    with styled_figure((5.0, height)) as (figure, ((axes,),)):
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold")
        axes.set_xlabel(x_label)
        yield figure, axes


@contextlib.contextmanager
def styled_figure(
    size: tuple[float, float], rows: int = 1, **grid: Any
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure and its axes, `[rows, 1]`, in the style of all pictures.

    The block draws and saves: the style ends with it. The size is in inches; `grid` are further
    arguments of `Figure.subplots`.
    """
    import matplotlib
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The reader's fonts show an SVG, not those of this machine.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, squeeze=False, **grid)
        for axes in panels.flat:
            axes.grid(axis="y", color=GRID)
            axes.set_axisbelow(True)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(length=0)
        yield figure, panels


def svg_text(figure: Figure) -> str:
    """Return a figure as SVG text without a date, in colors for dark mode where that is on."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    rules = "".join(
        f'[style*="{paint}: {light}"] {{ {paint}: {dark} !important }}'
        for light, dark in _IN_THE_DARK.items()
        for paint in ("fill", "stroke")
    )
    rules += f"text {{ fill: {_IN_THE_DARK[INK]} }}"  # black text has no color of its own
    style = f"<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>"
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    return svg.replace("</svg>", f"{style}\n</svg>")


def smooth(values: Sequence[float]) -> list[float]:
    """Return the exponential moving average with bias correction."""
    smoothed, average, weight = [], 0.0, 0.8
    for number, value in enumerate(values, start=1):
        average = weight * average + (1 - weight) * value
        smoothed.append(average / (1 - weight**number))
    return smoothed


def thinned(values: Sequence, most: int) -> Sequence:
    """Return at most so many of the values, evenly spaced and with the last one."""
    stride = -(-len(values) // max(most, 1)) or 1
    return values[::-1][::stride][::-1]
