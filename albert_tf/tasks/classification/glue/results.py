"""Results on all tasks of GLUE next to those of the paper, as a table and as a page."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.files import write_text
from albert_tf.finetuning.metrics import METRICS
from albert_tf.report.page import Page, render
from albert_tf.report.sections import Section, Table
from albert_tf.tasks.classification.glue.tasks import GLUE

PAGE_FILE = "report.html"
TABLE_FILE = "glue.tsv"

# Development sets, one model per task, the median of several runs: ALBERT-xxlarge (version 1) after
# 1.5 million steps. The paper (arXiv 1909.11942), table 9; it has no such number for WNLI.
PAPER = {
    "MNLI": 90.8,
    "QNLI": 95.3,
    "QQP": 92.2,
    "RTE": 89.2,
    "SST-2": 96.9,
    "MRPC": 90.9,
    "CoLA": 71.4,
    "STS-B": 93.0,
}
PAPER_TEXT = (
    "Development sets; one model per task. The numbers of the paper are those of ALBERT-xxlarge "
    "(version 1, 1.5 million steps) in table 9 of arXiv 1909.11942, medians of several runs"
)

# Size and version -> development sets, in the README of google-research/albert. Version 1 of
# xxlarge is the model in `PAPER`, and has the shape of version 2.
README = {
    ("base", 1): {"MNLI": 81.6, "SST-2": 90.3},
    ("large", 1): {"MNLI": 83.5, "SST-2": 91.7},
    ("xlarge", 1): {"MNLI": 86.4, "SST-2": 92.4},
    ("base", 2): {"MNLI": 84.6, "SST-2": 92.9},
    ("large", 2): {"MNLI": 86.5, "SST-2": 94.9},
    ("xlarge", 2): {"MNLI": 87.9, "SST-2": 95.4},
    ("xxlarge", 2): {"MNLI": 90.6, "SST-2": 96.8},
}


class TaskResult(NamedTuple):
    """The result of a task.

    Attributes:
        name: a key of `GLUE`.
        results: of its evaluation, by name; empty if there is none.
        note: why there is none.
    """

    name: str
    results: Mapping[str, float]
    note: str = ""


def metric_of(name: str) -> str:
    """Return the name of the main result of a task."""
    return METRICS[GLUE[name].metrics[0]].key


def same_model(config: AlbertConfig | None) -> tuple[str, dict[str, float]]:
    """Return the original's model of the shape of a config, by name, and its published results.

    Returns:
        ("", {}) if there is none.
    """
    for (size, version), results in README.items():
        preset = AlbertConfig.preset(size, version)
        if config and dataclasses.replace(preset, vocab_size=config.vocab_size) == config:
            return f"{size}_v{version}", results
    return "", {}


def result_table(results: Sequence[TaskResult], config: AlbertConfig | None) -> Table:
    """Return a row per task, with scores in percent, and one with the mean of those of the paper.

    Args:
        results: of the tasks.
        config: of the model, if it is known: of the original's models, the column of the one of
            this shape is added.
    """
    model, results_of_model = same_model(config)
    published = {"paper": PAPER, **({f"README, {model}": results_of_model} if model else {})}
    rows = []
    scores = {}
    for name, found, note in results:
        metric = metric_of(name)
        if name in PAPER and metric in found:
            scores[name] = found[metric]
        cells = (f"{values[name]:.1f}" if name in values else "" for values in published.values())
        rows.append((name, metric, _percent(found.get(metric)) or note, *cells))
    if len(scores) == len(PAPER):
        means = [sum(scores.values()) / len(scores), sum(PAPER.values()) / len(PAPER) / 100]
        rows.append(("mean of these 8", "", *map(_percent, means), *([""] * bool(model))))
    columns = ("task", "metric", "result", *published)
    return Table(columns, rows, frozenset(range(2, len(columns))))


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.1f}"


def write_results(folder: str, table: Table) -> None:
    """Write `glue.tsv` and `report.html`."""
    lines = ["\t".join(table.columns), *("\t".join(map(str, row)) for row in table.rows)]
    write_text(f"{folder}/{TABLE_FILE}", "".join(f"{line}\n" for line in lines))
    text = f"{PAPER_TEXT}. The report of each task is TASK/report.html in this folder."
    page = Page(
        title="GLUE",
        subtitle=folder,
        headlines=(),
        sections=[Section("Results in percent", text, tables=[table])],
        command=shlex.join(sys.argv),
        versions=(),
    )
    write_text(f"{folder}/{PAGE_FILE}", render(page))
