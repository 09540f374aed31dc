"""Pictures as SVG or PNG files, and tables as text."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from albert_tf.files import replacing, write_text
from albert_tf.report.charts import GRID, STYLE


@contextmanager
def picture(
    folder: str, name: str, formats: Sequence[str], size: tuple[float, float], panels: int = 1
) -> Iterator[list[Axes]]:
    """Yields axes side by side, and writes them to files after the block.

    Args:
        folder: where the files go.
        name: of the files, without ending.
        formats: their endings, "svg" or "png".
        size: width and height in inches.
        panels: number of axes.
    """
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The reader's fonts show an SVG, not those of this machine.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        for each in axes:
            each.grid(axis="y", color=GRID)
            each.set_axisbelow(True)
            each.spines[["top", "right", "left"]].set_visible(False)
            each.tick_params(length=0)
        yield axes
        for ending in formats:
            # Without a date, the same numbers give the same file.
            metadata: dict[str, Any] = {"Date": None} if ending == "svg" else {}
            with replacing(os.path.join(folder, f"{name}.{ending}")) as partial:
                figure.savefig(partial, format=ending, dpi=150, metadata=metadata)


def write_json(folder: str, name: str, value: Any) -> None:
    """Writes a JSON file, of which small changes are readable as a difference of lines."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    write_text(os.path.join(folder, name), text + "\n")


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Aligns cells in columns.

    Args:
        columns: headings.
        rows: cells, as many as columns.
        left: number of columns, from the first, that are aligned to the left.
    """
    table = [columns, *rows]
    widths = [max(len(row[number]) for row in table) for number in range(len(columns))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
