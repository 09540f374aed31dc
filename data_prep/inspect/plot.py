"""Plots of the statistics of a data set."""

import warnings

import numpy as np

from albert_tf import files
from albert_tf.logs import counted
from data_prep.inspect.show import Names
from data_prep.inspect.statistics import MASK_OUTCOMES, MAX_RUN, Statistics

_EXPECTED_SHARES = (0.8, 0.1, 0.1)  # as in BERT
# Fonts with CJK characters, used after the default one if installed.
_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Arial Unicode MS", "SimHei")


def plot(statistics: Statistics, names: Names, path: str) -> None:
    """Write a PNG file with a plot for each group of statistics."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plots = [_lengths]
    if statistics.labels is not None:
        plots.append(_labels)
    if statistics.outcomes.sum():
        plots += [_masked, _outcomes, _runs, _words]
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(font for font in _FONTS if font in installed)]
    rows = (len(plots) + 2) // 3
    columns = min(len(plots), 3)
    with matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(5 * columns, 4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for number, draw in enumerate(plots, start=1):
            draw(figure.add_subplot(rows, columns, number), statistics, names)
        examples = counted(statistics.examples, "example")
        figure.suptitle(f"{examples}, {counted(statistics.tokens, 'token')}")
        with files.replacing(path) as partial, files.open_file(partial, "wb") as file:
            figure.savefig(file, format="png", dpi=120)


def _lengths(axes, statistics: Statistics, names: Names) -> None:
    bins = np.linspace(0, statistics.sequence, min(statistics.sequence, 32) + 1)
    axes.hist(np.arange(len(statistics.lengths)), bins=bins, weights=statistics.lengths)
    padding = 1 - statistics.tokens / (statistics.examples * statistics.sequence)
    axes.set(title=f"Length, padding {padding:.1%}", xlabel="tokens", ylabel="examples")


def _labels(axes, statistics: Statistics, names: Names) -> None:
    assert statistics.labels is not None  # only drawn for files with labels
    _bars(axes, names.labels, statistics.labels / statistics.labels.sum())
    axes.axhline(0.5, color="gray", linestyle="--", linewidth=1)
    axes.set(title="Pair labels (dashed: even)", ylabel="share of examples")


def _masked(axes, statistics: Statistics, names: Names) -> None:
    assert statistics.masked is not None  # only drawn for files with masks
    axes.bar(np.arange(len(statistics.masked)), statistics.masked, width=1, edgecolor="white")
    share = statistics.outcomes.sum() / max(1, statistics.tokens)
    axes.set(title=f"Masked, {share:.1%} of all tokens", xlabel="masked tokens", ylabel="examples")


def _outcomes(axes, statistics: Statistics, names: Names) -> None:
    _bars(axes, MASK_OUTCOMES, statistics.outcomes / statistics.outcomes.sum())
    for position, expected in enumerate(_EXPECTED_SHARES):
        axes.hlines(
            expected, position - 0.4, position + 0.4, color="gray", linestyle="--", linewidth=1
        )
    axes.set(
        title="Replacement of masked tokens (dashed: expected)", ylabel="share of masked tokens"
    )


def _runs(axes, statistics: Statistics, names: Names) -> None:
    longest = int(np.flatnonzero(statistics.runs)[-1])
    labels = [f"{n}{'+' * (n == MAX_RUN)}" for n in range(1, longest + 1)]
    _bars(axes, labels, statistics.runs[1 : longest + 1] / statistics.runs.sum())
    axes.set(title="Adjacent masked words", xlabel="words", ylabel="share of runs")


def _words(axes, statistics: Statistics, names: Names) -> None:
    words = statistics.frequent_words(names)
    axes.barh(range(len(words)), [count for _, count in words])
    axes.set_yticks(range(len(words)), [word.replace("$", r"\$") for word, _ in words], fontsize=7)
    axes.invert_yaxis()
    axes.set(title="Most frequently masked words", xlabel="times")


def _bars(axes, labels, shares: np.ndarray) -> None:
    bars = axes.bar(labels, shares)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares], fontsize=8)
    axes.margins(y=0.1)
