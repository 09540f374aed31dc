"""Sections of a report on classification, regression and several labels at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn import metrics

from albert_tf.report.breakdowns import by_length
from albert_tf.report.charts import scatter
from albert_tf.report.intervals import Interval
from albert_tf.report.sections import Section, Shade, Table, error_section, excerpt

# Larger matrices are hard to read; the pairs that are taken for one another most are shown then.
_MOST_LABELS = 15
_MOST_PAIRS = 20


def class_sections(
    texts: Sequence[str],
    labels: Sequence[str],
    label_ids: np.ndarray,
    probabilities: np.ndarray,
    lengths: np.ndarray,
    intervals: Mapping[str, Interval],
) -> list[Section]:
    """Confusions, results by label and by length, and the worst errors.

    Args:
        texts: of the examples; of a pair both, with a line break between.
        labels: by id.
        label_ids: `[examples]`.
        probabilities: `[examples, labels]`.
        lengths: `[examples]`, tokens.
        intervals: of the results.
    """
    guesses = probabilities.argmax(axis=-1)
    confused = metrics.confusion_matrix(label_ids, guesses, labels=np.arange(len(labels)))
    small = len(labels) <= _MOST_LABELS
    tables = [(_matrix if small else _pairs)(labels, confused), _by_label(labels, confused)]
    given = probabilities[np.arange(len(label_ids)), label_ids]
    wrong = np.flatnonzero(guesses != label_ids)
    rows = [
        (
            excerpt(texts[number]),
            labels[label_ids[number]],
            f"{labels[guesses[number]]} ({probabilities[number, guesses[number]]:.1%})",
            f"{given[number]:.1%}",
        )
        for number in wrong[np.argsort(given[wrong], kind="stable")]
    ]
    columns = ("text", "label", "guess", "probability of the label")
    return [
        Section("Labels", tables=tables, intervals=intervals),
        *by_length(lengths, guesses == label_ids),
        error_section(columns, rows, len(texts), frozenset({3})),
    ]


def guess_sections(
    labels: Sequence[str], given: np.ndarray, probabilities: np.ndarray
) -> list[Section]:
    """What was guessed where no labels are known: how often each, and how surely.

    Args:
        labels: by id.
        given: `[examples, labels]`, 1 for each label that an example is given.
        probabilities: `[examples, labels]`.
    """
    rows = []
    for number, label in enumerate(labels):
        of = given[:, number] > 0
        surely = f"{probabilities[of, number].mean():.1%}" if of.any() else ""
        share = Shade(f"{of.mean():.1%}", float(of.mean()))
        rows.append((label, share, f"{of.sum():,}", surely))
    columns = ("label", "share", "predictions", "mean probability")
    return [Section("Predictions", tables=[Table(columns, rows, frozenset({1, 2, 3}))])]


def range_sections(values: np.ndarray) -> list[Section]:
    """What numbers were guessed where none are known: their quantiles.

    Args:
        values: `[examples]`.
    """
    names = ("lowest", "a quarter below", "half below", "three quarters below", "highest")
    quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    rows = [(name, f"{value:.4g}") for name, value in zip(names, quantiles, strict=True)]
    return [Section("Predictions", tables=[Table(("", "guess"), rows, frozenset({1}))])]


def value_sections(
    texts: Sequence[str],
    truth: np.ndarray,
    values: np.ndarray,
    intervals: Mapping[str, Interval],
) -> list[Section]:
    """Of a regression: guesses against the truth, and the worst errors.

    Args:
        texts: of the examples; of a pair both, with a line break between.
        truth, values: `[examples]`, what they should be and what was guessed.
        intervals: of the results.
    """
    errors = np.abs(values - truth)
    chart = scatter("Guesses against the truth", truth, values, "truth", "guess")
    rows = [
        (excerpt(texts[number]), f"{truth[number]:.4g}", f"{values[number]:.4g}")
        for number in np.argsort(-errors, kind="stable")
    ]
    middle = f"Half of the guesses are off by less than {np.median(errors):.3g}."
    worst = error_section(("text", "truth", "guess"), rows, len(texts), frozenset({1, 2}))
    return [
        Section("Guesses", middle, charts=[chart], intervals=intervals),
        worst._replace(text="The guesses that are furthest off."),
    ]


def label_set_sections(
    texts: Sequence[str],
    labels: Sequence[str],
    truth: np.ndarray,
    probabilities: np.ndarray,
    intervals: Mapping[str, Interval],
    threshold: float = 0.5,
) -> list[Section]:
    """Of examples with any number of labels: results by label, and the worst errors.

    Args:
        texts: of the examples.
        labels: by id.
        truth: `[examples, labels]`, 1 where an example has the label.
        probabilities: `[examples, labels]`, of each label by itself.
        intervals: of the results.
        threshold: from which on a label is given.
    """
    truth, guesses = truth > 0, probabilities >= threshold
    rows = []
    for number, label in enumerate(labels):
        right = (truth[:, number] & guesses[:, number]).sum()
        rows.append(_label_row(label, right, truth[:, number].sum(), guesses[:, number].sum()))
    surprise = np.where(truth, 1 - probabilities, probabilities).max(axis=-1)
    wrong = np.flatnonzero((truth != guesses).any(axis=-1))

    def names(chosen: np.ndarray) -> str:
        return ", ".join(label for label, given in zip(labels, chosen, strict=True) if given) or "-"

    errors = [
        (excerpt(texts[n]), names(truth[n]), names(guesses[n]))
        for n in wrong[np.argsort(-surprise[wrong], kind="stable")]
    ]
    table = Table(_LABEL_COLUMNS, rows, frozenset({1, 2, 3, 4, 5}))
    return [
        Section("Labels", tables=[table], intervals=intervals),
        error_section(("text", "labels", "guess"), errors, len(texts)),
    ]


_LABEL_COLUMNS = ("label", "examples", "guessed", "precision", "recall", "F1")


def _label_row(label: str, right: int, count: int, guessed: int) -> tuple[str, ...]:
    def share(part: float, whole: float) -> str:
        return f"{part / whole:.1%}" if whole else ""

    f1 = share(2 * right, count + guessed)
    return label, f"{count:,}", f"{guessed:,}", share(right, guessed), share(right, count), f1


def _by_label(labels: Sequence[str], confused: np.ndarray) -> Table:
    rows = [
        _label_row(label, confused[n, n], confused[n].sum(), confused[:, n].sum())
        for n, label in enumerate(labels)
    ]
    return Table(_LABEL_COLUMNS, rows, frozenset({1, 2, 3, 4, 5}), "By label")


def _matrix(labels: Sequence[str], confused: np.ndarray) -> Table:
    rows = []
    for label, counts in zip(labels, confused, strict=True):
        total = max(counts.sum(), 1)
        rows.append((label, *(Shade(f"{count:,}", count / total) for count in counts)))
    numbers = frozenset(range(1, len(labels) + 1))
    heading = "Confusion matrix: a row a label, a column a guess"
    return Table(("label", *labels), rows, numbers, heading, wide=True)


def _pairs(labels: Sequence[str], confused: np.ndarray) -> Table:
    wrong = confused - np.diag(np.diag(confused))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_PAIRS]
    pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
    rows = [
        (labels[label], labels[guess], f"{wrong[label, guess]:,}")
        for label, guess in pairs
        if wrong[label, guess]
    ]
    columns = ("label", "guess", "examples")
    return Table(columns, rows, frozenset({2}), "Labels taken for others, the most frequent first")
