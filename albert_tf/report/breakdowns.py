"""Accuracy by length and by group, as sections of a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.report.charts import Bar, bars
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import Section, Table

_MOST_BINS = 5


def by_group(title: str, names: Sequence[str], right: np.ndarray, x_label: str = "") -> Section:
    """Return a section with the accuracy of each group.

    Args:
        title: title of the section.
        names: group of each example.
        right: `[examples]`, whether each prediction is correct.
        x_label: label of the axis with the groups.
    """
    return _section(title, np.array(names), sorted(set(names)), right, x_label)


def by_length(lengths: np.ndarray, right: np.ndarray) -> list[Section]:
    """Compute accuracy by length, in up to five bins of about equal size.

    Args:
        lengths: `[examples]`, lengths in tokens.
        right: `[examples]`, whether each prediction is correct.

    Returns:
        One section, or none if nearly all examples have the same length.
    """
    inner = np.quantile(lengths, np.linspace(0, 1, _MOST_BINS + 1)[1:-1], method="lower")
    starts = sorted({int(lengths.min()), *(int(edge) + 1 for edge in inner)})
    starts = [start for start in starts if start <= lengths.max()]
    if len(starts) < 2:
        return []
    numbers = np.searchsorted(starts, lengths, side="right") - 1
    names = []
    for number in range(len(starts)):
        of = lengths[numbers == number]
        low, high = int(of.min()), int(of.max())
        names.append(f"{low}" if low == high else f"{low}\u2013{high}")
    return [_section("By length", np.array(names)[numbers], names, right, "tokens")]


def _section(
    title: str, names: np.ndarray, order: Sequence[str], right: np.ndarray, x_label: str
) -> Section:
    rows, values = [], []
    for name in order:
        of = right[names == name]
        interval = wilson(of.sum(), len(of))
        values.append(Bar(str(name), float(of.mean()), interval.low, interval.high))
        between = f"{interval.low:.1%} to {interval.high:.1%}"
        rows.append((str(name), f"{len(of):,}", f"{of.mean():.1%}", between))
    table = Table(
        (x_label or "set", "examples", "accuracy", "95 % interval"), rows, frozenset({1, 2, 3})
    )
    return Section(title, charts=[bars("Accuracy", values, x_label)], tables=[table])
