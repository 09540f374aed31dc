"""Sections of a report on classification, regression and several labels at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from sklearn import metrics

from albert_tf.report.breakdowns import by_length
from albert_tf.report.charts import scatter
from albert_tf.report.intervals import Interval, bootstrap, wilson
from albert_tf.report.sections import Section, Shade, Table, error_section, excerpt

# Larger matrices are hard to read; the pairs that are taken for one another most are shown then.
_MOST_LABELS = 15
_MOST_PAIRS = 20

Statistic = Callable[[np.ndarray, np.ndarray], float]


def intervals_of(
    statistics: Mapping[str, Statistic], truth: np.ndarray, guesses: np.ndarray
) -> dict[str, Interval]:
    """95 % intervals of some results, by their names: Wilson's of an accuracy, else bootstrap.

    Args:
        statistics: of `truth` and `guesses`, by name; those with "accuracy" in the name are shares
            of equal ones.
        truth, guesses: `[examples, ...]`.
    """
    return {
        name: wilson((truth == guesses).sum(), len(truth))
        if "accuracy" in name
        else bootstrap(statistic, truth, guesses)
        for name, statistic in statistics.items()
    }


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
        intervals: of the results; that of `eval_loss` is added.
    """
    guesses = probabilities.argmax(axis=-1)
    confused = metrics.confusion_matrix(label_ids, guesses, labels=np.arange(len(labels)))
    small = len(labels) <= _MOST_LABELS
    tables = [(_matrix if small else _pairs)(labels, confused), _by_label(labels, confused)]
    given = probabilities[np.arange(len(label_ids)), label_ids]
    loss = bootstrap(np.mean, -np.log(given.clip(1e-15)))
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
        Section("Labels", tables=tables, intervals={**intervals, "eval_loss": loss}),
        *by_length(lengths, guesses == label_ids),
        error_section(columns, rows, len(texts), frozenset({3})),
    ]


def guess_sections(labels: Sequence[str], probabilities: np.ndarray) -> list[Section]:
    """What was guessed where no labels are known: how often each, and how surely.

    Args:
        labels: by id.
        probabilities: `[examples, labels]`.
    """
    guesses, surest = probabilities.argmax(axis=-1), probabilities.max(axis=-1)
    rows = [
        (
            label,
            Shade(f"{(guesses == number).mean():.1%}", float((guesses == number).mean())),
            f"{(guesses == number).sum():,}",
            f"{surest[guesses == number].mean():.1%}" if (guesses == number).any() else "",
        )
        for number, label in enumerate(labels)
    ]
    columns = ("label", "share", "predictions", "mean probability")
    return [Section("Predictions", tables=[Table(columns, rows, frozenset({1, 2, 3}))])]


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
