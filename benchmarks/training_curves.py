"""Draws the curves of a training run, in training and on held-out text, as SVG files.

python -m benchmarks.training_curves --output_dir=small_cpu --pictures=docs/images/small_cpu
"""

from __future__ import annotations

import dataclasses
import json

from albert_tf.errors import InputError
from albert_tf.files import exists, read_lines, write_text
from albert_tf.options import command, option
from albert_tf.report.charts import Line, Mark, adaptive, chart, smooth

# What is drawn: quantity -> title, and its value by chance.
CURVES = {
    "masked_lm_accuracy": ("Masked tokens: accuracy", None),
    "sentence_order_accuracy": ("Sentence order: accuracy", 0.5),
}


@dataclasses.dataclass(frozen=True)
class CurveOptions:
    output_dir: str = option(help="Folder of the run: --output_dir of run_pretraining.py.")
    pictures: str = option(help="Beginning of the files' names; -QUANTITY.svg is added.")


def columns_of(path: str) -> dict[str, list[float]]:
    """Return the columns of a file of JSON lines, without lines that hold no loss.

    Raises:
        InputError: If there is no such file, or nothing in it.
    """
    rows = [json.loads(line) for line in read_lines(path)] if exists(path) else []
    rows = [row for row in rows if "masked_lm_loss" in row]
    if not rows:
        raise InputError(f"{path}: no record of a pretraining in it")
    return {name: [row[name] for row in rows] for name in rows[0]}


def draw(options: CurveOptions) -> None:
    """Write a file for each of `CURVES`."""
    training = columns_of(f"{options.output_dir}/metrics.jsonl")
    held_out = columns_of(f"{options.output_dir}/evaluations.jsonl")
    for quantity, (title, chance) in CURVES.items():
        lines = [
            Line("training", training["step"], smooth(training[quantity], 0.95)),
            Line("held-out text", held_out["step"], held_out[quantity]),
        ]
        marks = [] if chance is None else [Mark("chance", chance)]
        path = f"{options.pictures}-{quantity}.svg"
        write_text(path, adaptive(chart(title, lines, marks, percent=True)))
        print(path)


cli = command(CurveOptions, draw)

if __name__ == "__main__":
    cli()
