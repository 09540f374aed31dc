"""The report of a fine-tuning run: `report.html` in its folder."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.files import exists, read_lines, read_text, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, Problem
from albert_tf.interop.companions import RESULTS_FILE
from albert_tf.options import flag_name
from albert_tf.report.charts import Line, chart, smooth
from albert_tf.report.page import Page, Result, render
from albert_tf.report.sections import Section, Table
from albert_tf.training.evaluation import EVALUATIONS_FILE
from albert_tf.training.log import METRICS_FILE

REPORT_FILE = "report.html"
PREDICTIONS_REPORT_FILE = "report_predictions.html"


class Outputs(NamedTuple):
    """What the model gave for a set of a split."""

    split: str
    examples: ExampleSet
    outputs: dict[str, np.ndarray]


def write_report(options: FineTuningOptions, problem: Problem, given: Sequence[Outputs]) -> None:
    """Writes the report of what was evaluated or predicted into `--output_dir`.

    `report.html`, with the results in `eval_results.txt`; or, of predictions alone,
    `report_predictions.html`, so that the report of an evaluation stays.

    Args:
        options: of the program.
        problem: supplies sections.
        given: the model's outputs, set by set.
    """
    folder = options.output_dir
    evaluated = any(each.split == "eval" for each in given)
    sections = [
        section for each in given for section in _named(problem.report(*each), each.examples.name)
    ]
    intervals = {}
    for section in sections:
        intervals |= section.intervals
    results = _results(folder, intervals) if evaluated else []
    named = {result.name: result for result in results}
    best = _comparison(folder).get("best")
    curves = f"{folder}/{best}" if best else folder
    learned = _learning(curves, problem.metric) if options.do_train or evaluated else []
    page = Page(
        title="Fine-tuning report" if evaluated else "Predictions",
        subtitle=folder,
        headline=_rounded(named.get(problem.metric)),
        results=results,
        sections=[*sections, *_runs(folder), *learned, _data(options, problem)],
        command=command_line(options),
        settings=[(name, str(value)) for name, value in _flags(options).items()],
        versions=versions(),
    )
    path = f"{folder}/{REPORT_FILE if evaluated else PREDICTIONS_REPORT_FILE}"
    write_text(path, render(page))
    print(f"report in {path}")


def _named(sections: Sequence[Section], name: str) -> list[Section]:
    """Sections of a set, with its name in their titles where it has one."""
    if not name:
        return list(sections)
    return [section._replace(title=f"{section.title}: {name}") for section in sections]


def _results(folder: str, intervals: Mapping[str, Any]) -> list[Result]:
    results = []
    for line in read_lines(f"{folder}/{RESULTS_FILE}"):
        name, value = line.split(" = ")
        if name in intervals:
            low, high, method = intervals[name]
            results.append(Result(name, value, f"{low:.4g} to {high:.4g}", method))
        else:
            results.append(Result(name, value))
    return results


def _rounded(result: Result | None) -> Result | None:
    return result and result._replace(value=f"{float(result.value):.4g}")


def _rows(path: str) -> list[dict[str, float]]:
    """The objects of a file of JSON lines, without a line that a kill cut short."""
    rows = []
    for line in read_lines(path) if exists(path) else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _comparison(folder: str) -> dict[str, Any]:
    """What `seeds.json` says of the runs of a folder; empty where there is none."""
    path = f"{folder}/{SEEDS_FILE}"
    return json.loads(read_text(path)) if exists(path) else {}


def _runs(folder: str) -> list[Section]:
    """Several runs compared, where the folder holds them."""
    there = _comparison(folder)
    tables = []
    for name, title in (("settings", "Over the seeds of each setting"), ("runs", "All runs")):
        if rows := there.get(name):
            cells = [[_cell(value) for value in row.values()] for row in rows]
            numbers = frozenset(
                number
                for number, value in enumerate(rows[0].values())
                if isinstance(value, (int, float))
            )
            tables.append(Table(list(rows[0]), cells, numbers, title))
    return [Section("Runs", f"The best: {there['best']}.", tables=tables)] if tables else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _learning(folder: str, metric: str) -> list[Section]:
    """Curves of training, and of the evaluations in its course."""

    def line(name: str, rows: list[dict[str, float]], quantity: str, smoothed: bool) -> list[Line]:
        points = [(row["step"], row[quantity]) for row in rows if quantity in row]
        if not points:
            return []
        steps, values = zip(*points, strict=True)
        return [Line(name, steps, smooth(values) if smoothed else values)]

    training = _rows(f"{folder}/{METRICS_FILE}")
    evaluations = _rows(f"{folder}/{EVALUATIONS_FILE}")
    names = {name for row in training for name in row}
    shares = sorted(name for name in names if name.endswith("_accuracy"))
    curves = {
        "Loss": [
            *line("training", training, "loss", True),
            *line("evaluation", evaluations, "eval_loss", False),
        ],
        "Training: guessed right": [
            each for name in shares for each in line(name, training, name, True)
        ],
        metric: line(metric, evaluations, metric, False),
        "Learning rate": line("learning rate", training, "learning_rate", False),
    }
    charts = [chart(title, lines) for title, lines in curves.items() if lines]
    if not charts:
        return []
    text = "Training curves are moving averages over the logged steps."
    return [Section("How it learned", text, charts=charts)]


def _data(options: FineTuningOptions, problem: Problem) -> Section:
    flags = {name: value for name, value in _flags(options).items() if value}
    files = [
        (f"--{name}", str(value))
        for name, value in flags.items()
        if name.endswith(("_file", "_dir", "_checkpoint"))
        and name not in ("output_dir", "cached_dir")
    ]
    sets = []
    for split, of_split in problem.sets.items():
        for examples in of_split:
            lengths = examples.features.example_lengths
            sets.append(
                (
                    split,
                    examples.name,
                    f"{len(examples.features):,}",
                    f"{(examples.features.tokens_cut > 0).sum():,}",
                    f"{examples.features.tokens_cut.sum():,}",
                    f"{np.median(lengths):.0f}",
                    f"{lengths.max()}",
                )
            )
    columns = ("split", "set", "examples", "cut", "tokens lost", "median length", "longest")
    tables = [
        Table(columns, sets, frozenset(range(2, 7))),
        Table(("flag", "file or folder"), files),
    ]
    text = (
        "Lengths are in tokens, those cut off left out; cut are examples that lost some, to "
        f"--max_seq_length={options.max_seq_length} or another limit."
    )
    return Section("Data", text, tables=tables)


def _flags(options: FineTuningOptions) -> dict[str, Any]:
    """Flag -> value, of all options."""
    return {flag_name(field): getattr(options, field.name) for field in dataclasses.fields(options)}


def command_line(options: FineTuningOptions) -> str:
    """A command that does the same: the program, and the flags that differ from their defaults."""
    words = [os.path.basename(sys.argv[0])]
    if words[0].endswith(".py"):
        words.insert(0, "python")
    for field in dataclasses.fields(options):
        name, value = flag_name(field), getattr(options, field.name)
        if value == field.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no'}{name}")
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"--{name}={text}")
    return shlex.join(words)


def versions() -> list[tuple[str, str]]:
    """What ran: this project, its framework and Python."""
    try:
        own = importlib.metadata.version("albert-tf")
    except importlib.metadata.PackageNotFoundError:
        own = "(not installed)"
    return [
        ("albert_tf", own),
        ("TensorFlow", tf.__version__),
        ("Keras", f"{keras.__version__} on {keras.backend.backend()}"),
        ("Python", platform.python_version()),
    ]
