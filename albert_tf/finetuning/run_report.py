"""The report on fine-tuning: `report.html` in the output folder."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.files import exists, read_json, read_text, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.report_results import (
    ResultRow,
    baselines,
    is_score,
    read_results,
    result_rows,
    results_section,
)
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.hub.names import pinned_name
from albert_tf.interop.file_names import BEST_FOLDER, RESULTS_FILE
from albert_tf.report.charts import Line, chart, smooth
from albert_tf.report.intervals import Interval
from albert_tf.report.page import Page, render
from albert_tf.report.sections import Section, Table
from albert_tf.training.command_line import command_line, versions
from albert_tf.training.evaluation import EVALUATIONS_FILE
from albert_tf.training.rows import METRICS_FILE, Row, readable_rows

_COLLAPSED = "Try a lower --learning_rate, a longer warm-up, or another --random_seed."

REPORT_FILE = "report.html"
PREDICTIONS_REPORT_FILE = "report_predictions.html"


logger = logging.getLogger(__name__)


def write_report(
    options: FineTuningOptions,
    task: FineTuningTask,
    sets: Sequence[ExampleSet],
    reported: Sequence[tuple[ExampleSet, Outputs]],
    runs: Sequence[Section] = (),
) -> dict[str, ResultRow]:
    """Write the report on what was evaluated or predicted into `output_dir`.

    Its name is `report.html`, with the results of `eval_results.txt`; or, for predictions alone,
    `report_predictions.html`, which leaves the report on an evaluation in place.

    Args:
        options: of the program.
        task: supplies sections.
        sets: all examples.
        reported: the evaluated or predicted sets, each with the model's outputs.
        runs: sections on the runs that the outputs come from.

    Returns:
        The results by name.
    """
    folder = options.output_dir
    evaluated = any(examples.split == "eval" for examples, _ in reported)
    sections = [
        section
        for examples, outputs in reported
        for section in _named(task.report_sections(examples, outputs), examples.name)
    ]
    intervals: dict[str, Interval] = {}
    for section in sections:
        intervals |= section.intervals
    rows: dict[str, ResultRow] = {}
    if evaluated:
        rows = result_rows(folder, intervals, baselines(task, reported), task.percent)
    names = [name for name in task.metric_names if name in rows and is_score(name)]
    names = names[: 3 if len(names) <= 4 else 2]  # those of many are of groups
    best = _comparison(folder).best
    curves = f"{folder}/{best}" if best else folder
    learned = _learning(curves, names or [task.metric], task.percent)
    page = Page(
        title=_title(options, task, reported),
        subtitle=folder,
        headlines=[rows[name].headline() for name in names],
        sections=[
            *_warnings(task, reported),
            *([results_section(rows)] if rows else []),
            *sections,
            *runs,
            *_runs(folder),
            *(learned if options.do_train or evaluated else []),
            _data(options, sets),
        ],
        command=command_line(options),
        versions=versions(),
    )
    path = f"{folder}/{REPORT_FILE if evaluated else PREDICTIONS_REPORT_FILE}"
    write_text(path, render(page))
    logger.info("report in %s", path)
    return rows


def _title(
    options: FineTuningOptions,
    task: FineTuningTask,
    reported: Sequence[tuple[ExampleSet, Outputs]],
) -> str:
    first = reported[0][0]
    data = getattr(options, "predict_file", None) or getattr(options, "data_dir", None) or ""
    name = os.path.basename(data.rstrip("/"))
    if first.split == "eval":
        name = task.data_name(first)
    weights = options.init_checkpoint and pinned_name(options.init_checkpoint)
    model = (options.albert_hub_module_handle or weights or "").rstrip("/")
    if os.path.basename(model).startswith("model.ckpt"):
        model = os.path.dirname(model)
    model = os.path.basename(model).partition("@")[0]
    config_file = f"{options.output_dir}/{CONFIG_FILE}"
    if options.ensemble:
        model = f"{len(options.ensemble)} models"
    elif not model and exists(config_file):
        config = AlbertConfig.from_json_file(config_file)
        model = f"{config.num_hidden_layers} layers of {config.hidden_size}"
    kind = task.title if first.split == "eval" else f"{task.title}, predictions"
    return f"{kind}: {', '.join(filter(None, (name, model)))}"


def _named(sections: Sequence[Section], name: str) -> list[Section]:
    """Add the name of a set, if it has one, to the titles of its sections."""
    if not name:
        return list(sections)
    return [section._replace(title=f"{section.title}: {name}") for section in sections]


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """What is shown of `seeds.json`."""

    best: str = ""
    settings: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    runs: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def _comparison(folder: str) -> _Comparison:
    """Return the comparison of the runs of a folder; empty if there is none."""
    path = f"{folder}/{SEEDS_FILE}"
    return read_json(path, _Comparison) if exists(path) else _Comparison()


def _runs(folder: str) -> list[Section]:
    """Return the comparison of several runs, if there is one."""
    comparison = _comparison(folder)
    of_settings = (comparison.settings, "Over the seeds of each setting")
    tables = [table_of(*each) for each in (of_settings, (comparison.runs, "All runs")) if each[0]]
    return [Section("Runs", f"Best run: {comparison.best}.", tables=tables)] if tables else []


def table_of(rows: Sequence[dict[str, Any]], title: str = "", digits: int = 6) -> Table:
    """Return a table of rows with the same keys, the headings."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.{digits}g}"
        return "" if value is None else str(value)

    numbers = (n for n, value in enumerate(rows[0].values()) if isinstance(value, (int, float)))
    cells = [[*map(cell, row.values())] for row in rows]
    return Table(list(rows[0]), cells, frozenset(numbers), title)


def _learning(folder: str, metrics: Sequence[str], in_percent: bool = False) -> list[Section]:
    def line(name: str, rows: list[Row], quantity: str, scale: float = 1) -> list[Line]:
        points = [(row["step"], row[quantity] / scale) for row in rows if quantity in row]
        if not points:
            return []
        steps, values = zip(*points, strict=True)
        return [Line(name, steps, values)]

    def smoothed(name: str, quantity: str) -> list[Line]:
        return [each._replace(y=smooth(each.y)) for each in line(name, training, quantity)]

    training = readable_rows(f"{folder}/{METRICS_FILE}")
    evaluations = readable_rows(f"{folder}/{EVALUATIONS_FILE}")
    names = {name for row in training for name in row}
    shares = sorted(name for name in names if name.endswith("_accuracy"))
    scale = 100 if in_percent else 1
    percent = all(
        is_score(name) and each.y and max(map(abs, each.y)) <= 1
        for name in metrics
        for each in line(name, evaluations, name, scale)
    )
    curves = {
        "Loss": [*smoothed("training", "loss"), *line("evaluation", evaluations, "eval_loss")],
        "Training accuracy": [each for name in shares for each in smoothed(name, name)],
        "Evaluation": [e for n in metrics for e in line(n, evaluations, n, scale * percent or 1)],
        "Learning rate": line("learning rate", training, "learning_rate"),
    }
    in_shares = {"Training accuracy"} | ({"Evaluation"} if percent else set())
    step, text = None, "Curves of training are moving averages over the logged steps."
    last = training[-1]["step"] if training else 0
    if last and (step := _step(folder)):
        best = ", the best one" if _is_best(folder) else ""
        text += f" The dotted line is the checkpoint: step {step:,} of {last:,}{best}."
    charts = [
        chart(title, lines, percent=title in in_shares, chosen=step)
        for title, lines in curves.items()
        if lines
    ]
    return [Section("Training curves", text, charts=charts)] if charts else []


def _step(folder: str) -> int | None:
    if not exists(f"{folder}/{RESULTS_FILE}"):
        return None
    value = read_results(folder).get("global_step")
    return None if value is None else int(value)


def _is_best(folder: str) -> bool:
    """Return whether the evaluated checkpoint is the best one, which has a copy of the results."""
    best = f"{folder}/{BEST_FOLDER}/{RESULTS_FILE}"
    return exists(best) and read_text(best) == read_text(f"{folder}/{RESULTS_FILE}")


def _data(options: FineTuningOptions, sets: Sequence[ExampleSet]) -> Section:
    rows = []
    for examples in sets:
        features = examples.features
        lengths, dropped = features.example_lengths, features.tokens_cut
        longer = int((dropped > 0).sum()) + features.texts_split
        share = f" ({longer / len(examples.examples):.1%})" if longer else ""
        rows.append(
            (
                examples.split,
                examples.name,
                f"{len(examples.examples):,}",
                f"{longer:,}{share}",
                f"{len(features):,}",
                f"{dropped.sum():,}",
                f"{np.median(lengths):.0f}",
                f"{lengths.max()}",
            )
        )
    columns = (
        *("split", "set", "examples", "too long", "sequences", "tokens dropped"),
        *("median length", "longest"),
    )
    text = (
        f"Examples that are too long for --max_seq_length={options.max_seq_length}, or another "
        "limit, are truncated or read in several sequences. Lengths are those of the sequences, in "
        "tokens."
    )
    return Section("Data", text, tables=[Table(columns, rows, frozenset(range(2, 8)))])


def _warnings(
    task: FineTuningTask, reported: Sequence[tuple[ExampleSet, Outputs]]
) -> list[Section]:
    sections = []
    for examples, outputs in reported:
        if examples.split == "eval" and (reason := task.collapse(examples, outputs)):
            text = f"{reason[0].upper()}{reason[1:]}. {_COLLAPSED}"
            title = "Warning: this run has collapsed"
            sections += _named([Section(title, text)], examples.name)
    return sections
