"""Pictures of the statistics of a data set."""

from __future__ import annotations

import warnings

import numpy as np

from albert_tf import files
from data_prep.inspect.names import Names
from data_prep.inspect.statistics import KINDS, LONGEST_RUN, Statistics

_EXPECTED_KINDS = (0.8, 0.1, 0.1)  # ALBERT follows BERT in this
# Fonts with CJK characters, after the default one, wherever they are installed.
_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Arial Unicode MS", "SimHei")


def plot(statistics: Statistics, names: Names, path: str) -> None:
    """Writes a PNG file with a picture for each group of numbers."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pictures = [_lengths]
    if statistics.labels is not None:
        pictures.append(_labels)
    if statistics.kinds.sum():
        pictures += [_masked, _kinds, _runs, _words]
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(font for font in _FONTS if font in installed)]
    rows = (len(pictures) + 2) // 3
    columns = min(len(pictures), 3)
    with matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(5 * columns, 4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for number, draw in enumerate(pictures, start=1):
            draw(figure.add_subplot(rows, columns, number), statistics, names)
        figure.suptitle(f"{statistics.examples:,} examples, {statistics.tokens:,} tokens")
        with files.replacing(path) as partial, files.open_file(partial, "wb") as file:
            figure.savefig(file, format="png", dpi=120)


def _lengths(axes, statistics: Statistics, names: Names) -> None:
    bins = np.linspace(0, statistics.sequence, min(statistics.sequence, 32) + 1)
    axes.hist(np.arange(len(statistics.lengths)), bins=bins, weights=statistics.lengths)
    padding = 1 - statistics.tokens / (statistics.examples * statistics.sequence)
    axes.set(title=f"Length, padding {padding:.1%}", xlabel="tokens", ylabel="examples")


def _labels(axes, statistics: Statistics, names: Names) -> None:
    _bars(axes, names.labels, statistics.labels / statistics.labels.sum())
    axes.axhline(0.5, color="gray", linestyle="--", linewidth=1)
    axes.set(title="Pair labels (dashed: even)", ylabel="share of the examples")


def _masked(axes, statistics: Statistics, names: Names) -> None:
    axes.bar(np.arange(len(statistics.masked)), statistics.masked, width=1, edgecolor="white")
    share = statistics.kinds.sum() / max(1, statistics.tokens)
    axes.set(title=f"Masked, {share:.1%} of all tokens", xlabel="masked tokens", ylabel="examples")


def _kinds(axes, statistics: Statistics, names: Names) -> None:
    _bars(axes, KINDS, statistics.kinds / statistics.kinds.sum())
    for place, expected in enumerate(_EXPECTED_KINDS):
        axes.hlines(expected, place - 0.4, place + 0.4, color="gray", linestyle="--", linewidth=1)
    axes.set(
        title="What masked tokens became (dashed: expected)", ylabel="share of the masked tokens"
    )


def _runs(axes, statistics: Statistics, names: Names) -> None:
    longest = int(np.flatnonzero(statistics.runs)[-1])
    labels = [f"{n}{'+' * (n == LONGEST_RUN)}" for n in range(1, longest + 1)]
    _bars(axes, labels, statistics.runs[1 : longest + 1] / statistics.runs.sum())
    axes.set(title="Words masked side by side", xlabel="words", ylabel="share of the runs")


def _words(axes, statistics: Statistics, names: Names) -> None:
    words = statistics.frequent_words(names)
    axes.barh(range(len(words)), [count for _, count in words])
    axes.set_yticks(range(len(words)), [word.replace("$", r"\$") for word, _ in words], fontsize=7)
    axes.invert_yaxis()
    axes.set(title="Words masked most", xlabel="times")


def _bars(axes, labels, shares: np.ndarray) -> None:
    bars = axes.bar(labels, shares)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares], fontsize=8)
    axes.margins(y=0.1)
