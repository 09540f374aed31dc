"""The report on fine-tuning: `report.html` in the output folder; and results of predictions."""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json, read_lines, read_text, remove, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.hub.names import pinned_name
from albert_tf.interop.file_names import BEST_FOLDER, RESULTS_FILE
from albert_tf.report.charts import SMOOTHED, Curve, draw_curves
from albert_tf.report.intervals import Interval, number_text
from albert_tf.report.sections import (
    REPORT_FILE,
    Headline,
    Page,
    Section,
    table,
    table_of,
    write_page,
)
from albert_tf.training.command_line import commands, versions
from albert_tf.training.evaluation import EVALUATIONS_FILE, is_better
from albert_tf.training.rows import METRICS_FILE, readable_rows

logger = logging.getLogger(__name__)

PREDICTIONS_REPORT_FILE = "report_predictions.html"
# Results of `--do_predict`, if answers are known.
PREDICT_RESULTS_FILE = "predict_results.txt"

_COLLAPSED = "Try a lower --learning_rate, a longer warm-up, or another --random_seed."
# Words in names of results that are no scores, which are shown in percent.
_NOT_SCORES = frozenset({"loss", "mse", "total", "step", "thresh", "threshold", "models"})


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """What is shown of `seeds.json`."""

    best: str = ""
    settings: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    runs: list[dict[str, Any]] = dataclasses.field(default_factory=list)


class ResultRow(NamedTuple):
    """A row of the results.

    Attributes:
        name: in `eval_results.txt`.
        value, interval: as text; "" for no interval.
        method: of the interval.
        baseline: its answer and its value, as text; "" for none.
        warning: how the result compares with the baseline, if it is not clearly better.
    """

    name: str
    value: str
    interval: str = ""
    method: str = ""
    baseline: str = ""
    warning: str = ""

    def headline(self) -> Headline:
        """Return the result in large type."""
        interval = f"95% interval {self.interval} ({self.method})" if self.interval else ""
        baseline = f"baseline {self.baseline}" if self.baseline else ""
        notes = [note for note in (interval, baseline) if note]
        name = self.name.removeprefix("eval_").replace("_", " ").replace("f1", "F1")
        name = name.replace("mrr", "MRR")
        return Headline(name[0].upper() + name[1:], self.value, notes, self.warning)


def write_report(
    options: FineTuningOptions,
    task: FineTuningTask,
    sets: Sequence[ExampleSet],
    reported: Sequence[tuple[ExampleSet, Outputs]],
    runs: Sequence[Section] = (),
) -> dict[str, ResultRow]:
    """Write the report on what was evaluated or predicted; return the results by name.

    In `output_dir`, its name is `report.html`, with the results of `eval_results.txt`; or, for
    predictions alone, `report_predictions.html`, which leaves the report on an evaluation in place.
    Of all sets, those `reported` have the model's outputs; `runs` are sections on their origin.
    """
    folder = options.output_dir
    evaluated = [each for each in reported if each[0].split == "eval"]
    warnings, sections = [], []
    for examples, outputs in reported:
        of = f": {examples.name}" if examples.name else ""
        if examples.split == "eval" and (reason := task.collapse(examples, outputs)):
            text = f"{reason[0].upper()}{reason[1:]}. {_COLLAPSED}"
            warnings.append(Section(f"Warning: this run has collapsed{of}", text))
        own = task.report_sections(examples, outputs)
        sections += [section._replace(title=f"{section.title}{of}") for section in own]
    rows = _result_rows(folder, task, sections, evaluated) if evaluated else {}
    names = [name for name in task.metric_names if name in rows and _is_score(name)]
    names = names[: 3 if len(names) <= 4 else 2]  # those of many are of groups
    curves, compared = _runs(folder)
    learning = []
    if options.do_train or evaluated:
        learning = _learning(curves, names or [task.metric], task.percent)
    page = Page(
        title=_title(options, task, reported[0][0]),
        subtitle=folder,
        headlines=[rows[name].headline() for name in names],
        sections=[
            *warnings,
            *([_results_section(rows)] if rows else []),
            *sections,
            *runs,
            *compared,
            *learning,
            _data(options, sets),
        ],
        command=commands(options),
        versions=versions(),
    )
    write_page(f"{folder}/{REPORT_FILE if evaluated else PREDICTIONS_REPORT_FILE}", page)
    return rows


def write_predict_results(
    folder: str, task: FineTuningTask, predicted: Sequence[tuple[ExampleSet, Outputs]]
) -> None:
    """Print and write the results of those predictions whose answers are known, if there are any.

    The file of other predictions is removed.
    """
    results: dict[str, float] = {}
    for examples, outputs in predicted:
        rows, count = task.answered(examples), len(examples.examples)
        if 0 < len(rows) < count:
            logger.info("predict: %s of %s are scored", f"{len(rows):,}", f"{count:,}")
        results |= task.score_at(examples, outputs, rows) if rows else {}
    path = f"{folder}/{PREDICT_RESULTS_FILE}"
    if lines := [f"predict_{name} = {value:.8g}" for name, value in sorted(results.items())]:
        write_text(path, "\n".join(lines) + "\n")
        logger.info("%s", "\n".join(lines))
    elif predicted and exists(path):
        remove(path)


def _title(options: FineTuningOptions, task: FineTuningTask, first: ExampleSet) -> str:
    data = getattr(options, "predict_file", None) or getattr(options, "data_dir", None) or ""
    name, kind = os.path.basename(data.rstrip("/")), f"{task.title}, predictions"
    if first.split == "eval":
        name, kind = task.data_name(first), task.title
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
    return f"{kind}: {', '.join(filter(None, (name, model)))}"


def read_results(folder: str) -> dict[str, float]:
    """Return the results of `eval_results.txt` by name.

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = f"{folder}/{RESULTS_FILE}"
    results = {}
    for line in read_lines(path):
        name, _, value = line.partition(" = ")
        try:
            results[name] = float(value)
        except ValueError as e:
            raise InputError(f"{path}: {line[:60]!r} is not NAME = VALUE") from e
    return results


def _result_rows(
    folder: str,
    task: FineTuningTask,
    sections: Sequence[Section],
    evaluated: Sequence[tuple[ExampleSet, Outputs]],
) -> dict[str, ResultRow]:
    """Return what a report shows of `eval_results.txt`, by name; scores are in percent."""
    intervals = {name: each for section in sections for name, each in section.intervals.items()}
    baselines = {
        name: (found.answer, float(f"{score:.8g}"))  # as the results are written
        for examples, _ in evaluated
        if (found := task.baseline(examples))
        for name, score in found.results.items()
        if _is_score(name) or "mse" in name.lower().split("_")
    }
    rows = {}
    for name, value in read_results(folder).items():
        # A score that a task of one's own has on another scale stays as it is.
        percent = _is_score(name) and (task.percent or abs(value) <= 1)
        scale = 100 if percent and not task.percent else 1
        interval, method = None, ""
        if name in intervals:
            low, high, method = intervals[name]
            interval = Interval(scale * low, scale * high, method)
        shown, between = number_text(scale * value, interval, percent)
        baseline = warning = ""
        if name in baselines:
            answer, score = baselines[name]
            baseline = f"{number_text(scale * score, interval, percent)[0]} ({answer})"
            if not is_better(name, value, score):
                warning = "Not better than the baseline"
            elif interval and interval.low <= scale * score:
                warning = "The interval includes the baseline"
        rows[name] = ResultRow(name, shown, between, method if between else "", baseline, warning)
    return rows


def _is_score(name: str) -> bool:
    return _NOT_SCORES.isdisjoint(name.lower().split("_"))


def _results_section(results: Mapping[str, ResultRow]) -> Section:
    columns = {"name": "", "value": ">", "95% interval": ">", "interval by": "", "baseline": ""}
    text = "Baselines use no model." if any(each.baseline for each in results.values()) else ""
    rows = [
        (*each[:4], ". ".join(filter(None, (each.baseline, each.warning))))
        for each in results.values()
    ]
    return Section("Results", text, tables=[table(columns, rows)])


def _runs(folder: str) -> tuple[str, list[Section]]:
    """Return the folder of the best of several runs, or of the only one, and their comparison."""
    path = f"{folder}/{SEEDS_FILE}"
    if not exists(path):
        return folder, []
    found = read_json(path, _Comparison)
    tables = {"Over the seeds of each setting": found.settings, "All runs": found.runs}
    shown = [table_of(each, 6, title) for title, each in tables.items() if each]
    section = Section("Runs", f"Best run: {found.best}.", tables=shown)
    return f"{folder}/{found.best}" if found.best else folder, [section] if shown else []


def _learning(folder: str, metrics: Sequence[str], in_percent: bool) -> list[Section]:
    training = readable_rows(f"{folder}/{METRICS_FILE}")
    evaluations = readable_rows(f"{folder}/{EVALUATIONS_FILE}")
    best, step, text = "", None, SMOOTHED
    last = training[-1]["step"] if training else 0
    results = f"{folder}/{RESULTS_FILE}"
    if last and exists(results) and (step := read_results(folder).get("global_step")):
        copy = f"{folder}/{BEST_FOLDER}/{RESULTS_FILE}"  # of the results of the best checkpoint
        if exists(copy) and read_text(copy) == read_text(results):
            best = ", the best one"
        text += f" The dotted line is the checkpoint: step {step:,.0f} of {last:,}{best}."
    shares = sorted({each for row in training for each in row if each.endswith("_accuracy")})
    scale = 100 if in_percent else 1
    percent = all(
        _is_score(name) and abs(row[name]) <= scale
        for name in metrics
        for row in evaluations
        if name in row
    )
    losses = [Curve("training", training, "loss", smoothed=True)]
    losses.append(Curve("evaluation", evaluations, "eval_loss"))
    accuracies = [Curve(name, training, name, smoothed=True) for name in shares]
    scores = [Curve(n, evaluations, n, scale=scale if percent else 1) for n in metrics]
    rate = [Curve("learning rate", training, "learning_rate")]
    charts = [
        *draw_curves("Loss", losses, chosen=step),
        *draw_curves("Training accuracy", accuracies, percent=True, chosen=step),
        *draw_curves("Evaluation", scores, percent=percent, chosen=step),
        *draw_curves("Learning rate", rate, chosen=step),
    ]
    return [Section("Training curves", text, charts=charts)] if charts else []


def _data(options: FineTuningOptions, sets: Sequence[ExampleSet]) -> Section:
    rows = []
    for each in sets:
        count, features = len(each.examples), each.features
        lengths, dropped = features.example_lengths, features.tokens_cut
        longer = int((dropped > 0).sum()) + features.texts_split
        share = f" ({longer / count:.1%})" if longer else ""
        sizes = (count, f"{longer:,}{share}", len(features), dropped.sum())
        rows.append((each.split, each.name, *sizes, np.median(lengths), lengths.max()))
    columns = {
        **{"split": "", "set": "", "examples": ",", "too long": ">", "sequences": ","},
        **{"tokens dropped": ",", "median length": ".0f", "longest": "d"},
    }
    text = (
        f"Examples that are too long for --max_seq_length={options.max_seq_length}, or another "
        "limit, are truncated or read in several sequences. Lengths are those of the sequences, in "
        "tokens."
    )
    return Section("Data", text, tables=[table(columns, rows)])
