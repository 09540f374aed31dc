"""Report sections for classification, regression and multi-label classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn import metrics

from albert_tf.report.breakdowns import by_length, calibration
from albert_tf.report.charts import scatter
from albert_tf.report.intervals import Interval
from albert_tf.report.sections import (
    MOST_ERRORS,
    Section,
    Shade,
    Table,
    counted_errors,
    error_section,
    excerpt,
)

# Larger matrices are hard to read; the most confused pairs of labels are shown instead.
_MOST_LABELS = 15
_MOST_PAIRS = 20
# Errors are listed by label and prediction, the largest groups.
_MOST_CELLS = 12
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
    """Return confusions, results by label and by length, calibration, and the worst errors.

    Args:
        texts: of the examples; of a pair both, separated by a line break.
        labels: by id.
        label_ids: `[examples]`.
        probabilities: `[examples, labels]`.
        lengths: `[examples]`.
        intervals: of the results.
        unit: of the lengths.
    """
    predicted = probabilities.argmax(axis=-1)
    confused = metrics.confusion_matrix(label_ids, predicted, labels=np.arange(len(labels)))
    small = len(labels) <= _MOST_LABELS
    tables = [(_matrix if small else _pairs)(labels, confused), _by_label(labels, confused)]
    label_probabilities = probabilities[np.arange(len(label_ids)), label_ids]
    wrong = np.flatnonzero(predicted != label_ids)
    rows = {
        number: (
            excerpt(texts[number]),
            f"{probabilities[number, predicted[number]]:.1%}",
            f"{label_probabilities[number]:.1%}",
        )
        for number in wrong[np.argsort(label_probabilities[wrong], kind="stable")]
    }
    cells: dict[str, list[tuple[str, ...]]] = {}
    for number, row in rows.items():
        cell = f"{labels[label_ids[number]]} predicted as {labels[predicted[number]]}"
        cells.setdefault(cell, []).append(row)
    return [
        Section("Labels", tables=tables, intervals=intervals),
        *by_length(lengths, predicted == label_ids, unit=unit),
        calibration(probabilities.max(axis=-1), predicted == label_ids),
        _errors_by_cell(cells, len(texts)),
    ]


def _errors_by_cell(cells: Mapping[str, list[tuple[str, ...]]], count: int) -> Section:
    """Return the worst errors of each cell of the confusion matrix, the largest cells first."""
    columns = ("text", "P(prediction)", "P(label)")
    tables = []
    for cell, rows in sorted(cells.items(), key=lambda each: -len(each[1]))[:_MOST_CELLS]:
        title = f"{cell}: {len(rows):,}"
        tables.append(Table(columns, rows[:_SHOWN_OF_CELL], frozenset({1, 2}), title))
        if more := rows[_SHOWN_OF_CELL:MOST_ERRORS]:
            tables.append(Table(columns, more, frozenset({1, 2}), folded=f"{len(more)} more"))
    note = "Of each confusion, the most confident errors come first."
    errors = sum(map(len, cells.values()))
    return counted_errors(errors, count, "examples", note, tables=tables)


def label_sections(
    labels: Sequence[str], assigned: np.ndarray, probabilities: np.ndarray
) -> list[Section]:
    """Return predictions without known labels: how often each label, and with what probability.

    Args:
        labels: by id.
        assigned: `[examples, labels]`, 1 for each label that is predicted for an example.
        probabilities: `[examples, labels]`.
    """
    rows = []
    for number, label in enumerate(labels):
        of = assigned[:, number] > 0
        mean = f"{probabilities[of, number].mean():.1%}" if of.any() else ""
        share = Shade(f"{of.mean():.1%}", float(of.mean()))
        rows.append((label, share, f"{of.sum():,}", mean))
    columns = ("label", "share", "predictions", "mean probability")
    return [Section("Predictions", tables=[Table(columns, rows, frozenset({1, 2, 3}))])]


def quantile_sections(values: np.ndarray) -> list[Section]:
    """Return predicted numbers without known ones: their quantiles.

    Args:
        values: `[examples]`.
    """
    names = ("minimum", "first quartile", "median", "third quartile", "maximum")
    quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    rows = [(name, f"{value:.4g}") for name, value in zip(names, quantiles, strict=True)]
    return [Section("Predictions", tables=[Table(("", "prediction"), rows, frozenset({1}))])]


def number_sections(
    texts: Sequence[str],
    truth: np.ndarray,
    values: np.ndarray,
    intervals: Mapping[str, Interval],
) -> list[Section]:
    """Regression: predictions against the truth, and the worst errors.

    Args:
        texts: of the examples; of a pair both, separated by a line break.
        truth, values: `[examples]`, the labels and the predictions.
        intervals: of the results.
    """
    errors = np.abs(values - truth)
    chart = scatter(
        "Predictions against the truth", truth.tolist(), values.tolist(), "truth", "prediction"
    )
    rows = [
        (excerpt(texts[number]), f"{truth[number]:.4g}", f"{values[number]:.4g}")
        for number in np.argsort(-errors, kind="stable")
    ]
    text = f"The median absolute error is {np.median(errors):.3g}."
    worst = error_section(("text", "truth", "prediction"), rows, len(texts), frozenset({1, 2}))
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
    threshold: float = 0.5,
) -> list[Section]:
    """Multi-label classification: results by label, and the worst errors.

    Args:
        texts: of the examples.
        labels: by id.
        truth: `[examples, labels]`, 1 where an example has the label.
        probabilities: `[examples, labels]`, independent of each other.
        intervals: of the results.
        threshold: the lowest probability at which a label is predicted.
    """
    truth, predicted = truth > 0, probabilities >= threshold
    rows = []
    for number, label in enumerate(labels):
        correct = (truth[:, number] & predicted[:, number]).sum()
        rows.append(_label_row(label, correct, truth[:, number].sum(), predicted[:, number].sum()))
    surprise = np.where(truth, 1 - probabilities, probabilities).max(axis=-1)
    wrong = np.flatnonzero((truth != predicted).any(axis=-1))

    def names(chosen: np.ndarray) -> str:
        return (
            ", ".join(label for label, is_chosen in zip(labels, chosen, strict=True) if is_chosen)
            or "-"
        )

    errors = [
        (excerpt(texts[n]), names(truth[n]), names(predicted[n]))
        for n in wrong[np.argsort(-surprise[wrong], kind="stable")]
    ]
    table = Table(_LABEL_COLUMNS, rows, frozenset({1, 2, 3, 4, 5}))
    return [
        Section("Labels", tables=[table], intervals=intervals),
        error_section(("text", "labels", "prediction"), errors, len(texts)),
    ]


_LABEL_COLUMNS = ("label", "examples", "predicted", "precision", "recall", "F1")


def _label_row(label: str, correct: int, count: int, predicted: int) -> tuple[str, ...]:
    def share(part: float, whole: float) -> str:
        return f"{part / whole:.1%}" if whole else ""

    f1 = share(2 * correct, count + predicted)
    precision, recall = share(correct, predicted), share(correct, count)
    return label, f"{count:,}", f"{predicted:,}", precision, recall, f1


def _by_label(labels: Sequence[str], confused: np.ndarray) -> Table:
    rows = [
        _label_row(label, confused[n, n], confused[n].sum(), confused[:, n].sum())
        for n, label in enumerate(labels)
    ]
    return Table(_LABEL_COLUMNS, rows, frozenset({1, 2, 3, 4, 5}), "By label")


def _matrix(labels: Sequence[str], confused: np.ndarray) -> Table:
    rows: list[Sequence[str | Shade]] = []
    for label, counts in zip(labels, confused, strict=True):
        total = max(counts.sum(), 1)
        rows.append((label, *(Shade(f"{count:,}", count / total) for count in counts)))
    numbers = frozenset(range(1, len(labels) + 1))
    heading = "Confusion matrix: rows are labels, columns are predictions"
    return Table(("label", *labels), rows, numbers, heading, wide=True)


def _pairs(labels: Sequence[str], confused: np.ndarray) -> Table:
    wrong = confused - np.diag(np.diag(confused))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_PAIRS]
    pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
    rows = [
        (labels[label], labels[predicted], f"{wrong[label, predicted]:,}")
        for label, predicted in pairs
        if wrong[label, predicted]
    ]
    columns = ("label", "prediction", "examples")
    return Table(columns, rows, frozenset({2}), "Most frequently confused labels")
