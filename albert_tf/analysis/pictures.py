"""Pictures as SVG or PNG files, and results as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib.axes import Axes

from albert_tf.files import replacing, to_json, write_text
from albert_tf.report.charts import adaptive, styled_figure, svg_text


@contextmanager
def picture(
    folder: str, name: str, formats: Sequence[str], size: tuple[float, float], panels: int = 1
) -> Iterator[list[Axes]]:
    """Yield axes below each other, and write them to files after the block.

    Args:
        folder: where the files go.
        name: of the files, without ending.
        formats: their endings, "svg" or "png".
        size: width and height in inches.
        panels: number of axes.
    """
    with styled_figure(size, rows=panels) as (figure, axes):
        yield list(axes[:, 0])
        for ending in formats:
            path = os.path.join(folder, f"{name}.{ending}")
            if ending == "svg":
                write_text(path, adaptive(svg_text(figure)))
                continue
            with replacing(path) as partial:
                figure.savefig(partial, format=ending, dpi=150)


def write_json(folder: str, name: str, value: Any) -> None:
    """Write a JSON file, of which small changes are readable as a difference of lines."""
    text = to_json(value, indent=1, ensure_ascii=False)
    write_text(os.path.join(folder, name), text + "\n")
