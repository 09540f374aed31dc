"""The report on fine-tuning: `report.html` in the output folder."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import logging
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, read_json, read_lines, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.hub.names import pinned_name
from albert_tf.interop.adjacent_files import RESULTS_FILE
from albert_tf.options import flag_name
from albert_tf.report.charts import Line, chart, smooth
from albert_tf.report.intervals import Interval
from albert_tf.report.page import Page, Result, render
from albert_tf.report.sections import Section, Table
from albert_tf.training.evaluation import EVALUATIONS_FILE
from albert_tf.training.log import METRICS_FILE, Row, parse_row

_FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX"}

# Words in names of results: a constant answer has no meaningful loss, and totals are no scores.
_NOT_SCORES = frozenset({"loss", "total"})

_COLLAPSED = "Try a lower --learning_rate, a longer warm-up, or another --random_seed."

REPORT_FILE = "report.html"
PREDICTIONS_REPORT_FILE = "report_predictions.html"


logger = logging.getLogger(__name__)


def write_report(
    options: FineTuningOptions,
    task: FineTuningTask,
    sets: Sequence[ExampleSet],
    reported: Sequence[tuple[ExampleSet, Outputs]],
) -> None:
    """Write the report on what was evaluated or predicted into `output_dir`.

    Its name is `report.html`, with the results of `eval_results.txt`; or, for predictions alone,
    `report_predictions.html`, which leaves the report on an evaluation in place.

    Args:
        options: of the program.
        task: supplies sections.
        sets: all examples.
        reported: the evaluated or predicted sets, each with the model's outputs.
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
    results = _results(folder, intervals) if evaluated else []
    named = {result.name: result for result in results}
    sanity = _sanity(task, reported, {name: each.value for name, each in named.items()})
    best = _comparison(folder).best
    curves = f"{folder}/{best}" if best else folder
    learned = _learning(curves, task.metric) if options.do_train or evaluated else []
    page = Page(
        title="Fine-tuning report" if evaluated else "Predictions",
        subtitle=folder,
        headline=_rounded(named.get(task.metric)),
        results=results,
        sections=[*sanity, *sections, *_runs(folder), *learned, _data(options, sets)],
        command=command_line(options),
        settings=[(name, str(value)) for name, value in _flags(options).items()],
        versions=versions(),
    )
    path = f"{folder}/{REPORT_FILE if evaluated else PREDICTIONS_REPORT_FILE}"
    write_text(path, render(page))
    logger.info("report in %s", path)


def _named(sections: Sequence[Section], name: str) -> list[Section]:
    """Add the name of a set, if it has one, to the titles of its sections."""
    if not name:
        return list(sections)
    return [section._replace(title=f"{section.title}: {name}") for section in sections]


def _results(folder: str, intervals: Mapping[str, Any]) -> list[Result]:
    results = []
    for line in read_lines(f"{folder}/{RESULTS_FILE}"):
        name, separator, value = line.partition(" = ")
        if not separator:
            raise InputError(f"{folder}/{RESULTS_FILE}: {line[:60]!r} is not NAME = VALUE")
        if name in intervals:
            low, high, method = intervals[name]
            results.append(Result(name, value, f"{low:.4g} to {high:.4g}", method))
        else:
            results.append(Result(name, value))
    return results


def _rounded(result: Result | None) -> Result | None:
    return result and result._replace(value=f"{float(result.value):.4g}")


def _rows(path: str) -> list[Row]:
    """Return the objects of a file of JSON lines, except an incomplete last line."""
    rows: list[Row] = []
    for line in read_lines(path) if exists(path) else ():
        with contextlib.suppress(InputError):
            rows.append(parse_row(line, path))
    return rows


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
    tables = []
    for rows, title in (
        (comparison.settings, "Over the seeds of each setting"),
        (comparison.runs, "All runs"),
    ):
        if rows:
            cells = [[_cell(value) for value in row.values()] for row in rows]
            numbers = frozenset(
                number
                for number, value in enumerate(rows[0].values())
                if isinstance(value, (int, float))
            )
            tables.append(Table(list(rows[0]), cells, numbers, title))
    return [Section("Runs", f"Best run: {comparison.best}.", tables=tables)] if tables else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _learning(folder: str, metric: str) -> list[Section]:
    """Return curves of training, and of the evaluations during training."""

    def line(name: str, rows: list[Row], quantity: str, smoothed: bool) -> list[Line]:
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
        "Training accuracy": [each for name in shares for each in line(name, training, name, True)],
        metric: line(metric, evaluations, metric, False),
        "Learning rate": line("learning rate", training, "learning_rate", False),
    }
    charts = [chart(title, lines) for title, lines in curves.items() if lines]
    if not charts:
        return []
    text = "Curves of training are moving averages over the logged steps."
    return [Section("Training curves", text, charts=charts)]


def _data(options: FineTuningOptions, sets: Sequence[ExampleSet]) -> Section:
    flags = {name: value for name, value in _flags(options).items() if value}
    files = [
        (f"--{name}", str(value))
        for name, value in flags.items()
        if name.endswith(("_file", "_dir", "_checkpoint"))
        and name not in ("output_dir", "cached_dir")
    ]
    rows = []
    for examples in sets:
        lengths, dropped = examples.features.example_lengths, examples.features.tokens_cut
        rows.append(
            (
                examples.split,
                examples.name,
                f"{len(examples.features):,}",
                f"{(dropped > 0).sum():,}",
                f"{dropped.sum():,}",
                f"{np.median(lengths):.0f}",
                f"{lengths.max()}",
            )
        )
    columns = (
        *("split", "set", "examples", "truncated", "tokens dropped"),
        *("median length", "longest"),
    )
    tables = [
        Table(columns, rows, frozenset(range(2, 7))),
        Table(("flag", "file or folder"), files),
    ]
    text = (
        "Lengths are in tokens, after truncation. Truncated examples exceeded "
        f"--max_seq_length={options.max_seq_length} or another limit."
    )
    return Section("Data", text, tables=tables)


def _flags(options: FineTuningOptions) -> dict[str, Any]:
    """Return flag -> value of all options."""
    options = _as_given(options)
    return {flag_name(field): getattr(options, field.name) for field in dataclasses.fields(options)}


def _as_given(options: FineTuningOptions) -> FineTuningOptions:
    """Return the options with names and revisions of weights instead of local paths."""
    path = options.init_checkpoint
    given = pinned_name(path) if path and not options.albert_hub_module_handle else None
    return dataclasses.replace(options, init_checkpoint=given)


def command_line(options: FineTuningOptions) -> str:
    """Return the command: the program, and the flags that differ from their defaults."""
    options = _as_given(options)
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
    """Return versions of this project, its framework and Python."""
    try:
        own = importlib.metadata.version("albert-tf")
    except importlib.metadata.PackageNotFoundError:
        own = "(not installed)"
    backend = keras.backend.backend()
    return [
        ("albert_tf", own),
        (_FRAMEWORKS.get(backend, backend), importlib.import_module(backend).__version__),
        ("Keras", f"{keras.__version__} on {backend}"),
        ("Python", platform.python_version()),
    ]


def _sanity(
    task: FineTuningTask,
    reported: Sequence[tuple[ExampleSet, Outputs]],
    results: Mapping[str, str],
) -> list[Section]:
    """Return warnings of sets with one prediction throughout, and the baseline's scores.

    Args:
        task: computes them.
        reported: sets with the outputs of the model; only those of the split "eval" count.
        results: name -> value, as in `eval_results.txt`.
    """
    sections = []
    for examples, outputs in reported:
        if examples.split != "eval":
            continue
        if reason := task.collapse(examples, outputs):
            text = f"{reason[0].upper()}{reason[1:]}. {_COLLAPSED}"
            title = _set_title("Warning: this run has collapsed", examples)
            sections.append(Section(title, text))
        if baseline := task.baseline(examples):
            rows = [
                (name, results[name], f"{value:.8g}")
                for name, value in baseline.results.items()
                if name in results and _NOT_SCORES.isdisjoint(name.split("_"))
            ]
            table = Table(("result", "model", baseline.answer), rows, frozenset({1, 2}))
            text = "The scores of the same answer for every example, without a model."
            sections.append(Section(_set_title("Baseline", examples), text, tables=[table]))
    return sorted(sections, key=lambda section: not section.title.startswith("Warning"))


def _set_title(text: str, examples: ExampleSet) -> str:
    return f"{text}: {examples.name}" if examples.name else text
