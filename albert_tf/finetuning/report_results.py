"""The results in the report on fine-tuning, next to their intervals and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import read_lines
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.interop.file_names import RESULTS_FILE
from albert_tf.report.intervals import Interval, number_text
from albert_tf.report.page import Headline
from albert_tf.report.sections import Section, Table
from albert_tf.training.evaluation import is_better

# Words in names of results that are no scores, which are shown in percent.
_NOT_SCORES = frozenset({"loss", "mse", "total", "step", "thresh", "threshold", "models"})


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


def result_rows(
    folder: str,
    intervals: Mapping[str, Interval],
    baselines: Mapping[str, tuple[str, float]],
    in_percent: bool,
) -> dict[str, ResultRow]:
    """Return what a report shows of `eval_results.txt`, by name; scores are in percent.

    Args:
        folder: of the file.
        intervals: of results.
        baselines: answer and score, as of `baselines`.
        in_percent: whether scores are already in percent.

    Raises:
        InputError: If the file is missing or damaged.
    """
    rows = {}
    for name, value in read_results(folder).items():
        # A score that a task of one's own has on another scale stays as it is.
        percent = is_score(name) and (in_percent or abs(value) <= 1)
        scale = 100 if percent and not in_percent else 1
        interval, method = None, ""
        if name in intervals:
            low, high, method = intervals[name]
            interval = Interval(scale * low, scale * high, method)
        shown, between = number_text(scale * value, interval, percent)
        baseline = warning = ""
        if name in baselines:
            answer, score = baselines[name]
            score = float(f"{score:.8g}")  # as the results are written
            baseline = f"{number_text(scale * score, interval, percent)[0]} ({answer})"
            if not is_better(name, value, score):
                warning = "Not better than the baseline"
            elif interval and interval.low <= scale * score:
                warning = "The interval includes the baseline"
        rows[name] = ResultRow(name, shown, between, method if between else "", baseline, warning)
    return rows


def is_score(name: str) -> bool:
    return _NOT_SCORES.isdisjoint(name.lower().split("_"))


def results_section(results: Mapping[str, ResultRow]) -> Section:
    columns = ("name", "value", "95% interval", "interval by", "baseline")
    text = "Baselines use no model." if any(each.baseline for each in results.values()) else ""
    rows = [
        (*each[:4], ". ".join(filter(None, (each.baseline, each.warning))))
        for each in results.values()
    ]
    table = Table(columns, rows, frozenset({1, 2}))
    return Section("Results", text, tables=[table])


def baselines(
    task: FineTuningTask, reported: Sequence[tuple[ExampleSet, Outputs]]
) -> dict[str, tuple[str, float]]:
    """Return the baseline's answer and score by the name of the result."""
    return {
        name: (baseline.answer, value)
        for examples, _ in reported
        if examples.split == "eval" and (baseline := task.baseline(examples))
        for name, value in baseline.results.items()
        if is_score(name) or "mse" in name.lower().split("_")
    }
