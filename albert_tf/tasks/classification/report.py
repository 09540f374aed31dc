"""Report sections for classification, regression and multi-label classification.

Arrays have a row for each example. Its text has both texts of a pair, on lines of their own. Labels
are in the order of their ids, and intervals are those of the results.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.report.breakdowns import by_label, by_length, calibration, predictions
from albert_tf.report.charts import scatter
from albert_tf.report.intervals import Interval
from albert_tf.report.sections import (
    Section,
    Table,
    counted_errors,
    error_section,
    error_tables,
    excerpt,
    matrix,
    table,
)

# Larger matrices are hard to read; errors are listed by label and prediction, the largest groups.
_MOST_LABELS = 15
_MOST_CELLS = 20
_SHOWN_OF_CELL = 5


def class_sections(
    texts: Sequence[str],
    labels: Sequence[str],
    label_ids: np.ndarray,
    probabilities: np.ndarray,
    lengths: np.ndarray,
    intervals: Mapping[str, Interval],
    unit: str = "tokens",
) -> list[Section]:
    """Return confusions, results by label and by length, calibration, and the worst errors."""
    predicted = probabilities.argmax(axis=-1)
    right, examples = predicted == label_ids, np.arange(len(label_ids))
    confused = np.zeros((len(labels), len(labels)), int)
    np.add.at(confused, (label_ids, predicted), 1)
    counts = confused.sum(axis=1), confused.sum(axis=0), np.diag(confused)
    tables = [by_label("label", "examples", zip(labels, *counts, strict=True), "By label")]
    if len(labels) <= _MOST_LABELS:
        heading = "Confusion matrix: rows are labels, columns are predictions"
        shown = matrix(("label", *labels), dict(zip(labels, confused, strict=True)), heading)
        tables.insert(0, shown)
    columns = {"text": "", "P(prediction)": ".1%", "P(label)": ".1%"}
    surest, label_probabilities = probabilities.max(axis=-1), probabilities[examples, label_ids]
    cells: dict[str, list[tuple]] = {}  # of the confusion matrix
    for n in np.argsort(label_probabilities, kind="stable"):
        if not right[n]:
            cell = f"{labels[label_ids[n]]} predicted as {labels[predicted[n]]}"
            row = (excerpt(texts[n]), surest[n], label_probabilities[n])
            cells.setdefault(cell, []).append(row)
    errors: list[Table] = []
    for cell, rows in sorted(cells.items(), key=lambda each: -len(each[1]))[:_MOST_CELLS]:
        errors += error_tables(columns, rows, _SHOWN_OF_CELL, f"{cell}: {len(rows):,}")
    note = "Of each confusion, the most confident errors come first."
    return [
        Section("Labels", tables=tables, intervals=intervals),
        *by_length(lengths, right, unit=unit),
        calibration(surest, right),
        counted_errors(int((~right).sum()), len(texts), "examples", note, tables=errors),
    ]


def label_sections(
    labels: Sequence[str], assigned: np.ndarray, probabilities: np.ndarray
) -> list[Section]:
    """Return predictions without known labels; `assigned` has 1 for each predicted label."""
    of_labels = zip(labels, assigned.T > 0, probabilities.T, strict=True)
    chosen = {label: values[is_chosen] for label, is_chosen, values in of_labels}
    return [predictions("label", chosen, len(assigned))]


def quantile_sections(values: np.ndarray) -> list[Section]:
    """Return predicted numbers without known ones: their quantiles."""
    names = ("minimum", "first quartile", "median", "third quartile", "maximum")
    rows = [*zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]), strict=True)]
    return [Section("Predictions", tables=[table({"": "", "prediction": ".4g"}, rows)])]


def number_sections(
    texts: Sequence[str], truth: np.ndarray, values: np.ndarray, intervals: Mapping[str, Interval]
) -> list[Section]:
    """Return predicted numbers against the true ones, and the worst errors."""
    errors = np.abs(values - truth)
    chart = scatter(
        "Predictions against the truth", truth.tolist(), values.tolist(), "truth", "prediction"
    )
    order = np.argsort(-errors, kind="stable")
    rows = [(excerpt(texts[number]), truth[number], values[number]) for number in order]
    text = f"The median absolute error is {np.median(errors):.3g}."
    worst = error_section({"text": "", "truth": ".4g", "prediction": ".4g"}, rows, len(texts))
    return [
        Section("Predictions", text, charts=[chart], intervals=intervals),
        worst._replace(text="The predictions with the largest errors."),
    ]


def label_set_sections(
    texts: Sequence[str],
    labels: Sequence[str],
    truth: np.ndarray,
    probabilities: np.ndarray,
    intervals: Mapping[str, Interval],
) -> list[Section]:
    """Return results of sets of labels by label, and the worst errors.

    Truth is 1 where an example has the label; a label is predicted from probability 0.5 on.
    """
    truth, predicted = truth > 0, probabilities >= 0.5
    counts = (each.sum(axis=0) for each in (truth, predicted, truth & predicted))
    table_of_labels = by_label("label", "examples", zip(labels, *counts, strict=True))
    surprise = np.where(truth, 1 - probabilities, probabilities).max(axis=-1)
    wrong = np.flatnonzero((truth != predicted).any(axis=-1))

    def names(chosen: np.ndarray) -> str:
        return ", ".join(itertools.compress(labels, chosen)) or "-"

    errors = [
        (excerpt(texts[n]), names(truth[n]), names(predicted[n]))
        for n in wrong[np.argsort(-surprise[wrong], kind="stable")]
    ]
    columns = dict.fromkeys(("text", "labels", "prediction"), "")
    return [
        Section("Labels", tables=[table_of_labels], intervals=intervals),
        error_section(columns, errors, len(texts)),
    ]
