"""Results and predictions by group, length and label, as parts of a report."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.report.charts import Bar, bars, reliability
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import Section, Shade, Table, table

_MOST_BINS = 5


def by_group(
    title: str,
    names: Iterable[str],
    right: np.ndarray,
    x_label: str = "",
    share: str = "accuracy",
    order: Sequence[str] = (),
) -> list[Section]:
    """Return a section with the accuracy of each group, or none if there is one group only.

    Args:
        names: group of each example.
        right: `[examples]`, whether each prediction is correct.
        share: what the share of correct predictions is called.
        order: of the groups; by default as their names are sorted.
    """
    groups, rows, values = np.array([*names]), [], []
    order = order or sorted(set(groups))
    if len(order) < 2:
        return []
    for name in order:
        of = right[groups == name]
        interval = wilson(of.sum(), len(of))
        values.append(Bar(str(name), float(of.mean()), interval.low, interval.high))
        between = f"{100 * interval.low:.1f} to {interval.high:.1%}"
        rows.append((str(name), len(of), of.mean(), between))
    columns = {x_label or "set": "", "examples": ",", share: ".1%", "95% interval": ">"}
    chart = bars(share.capitalize(), values, x_label)
    return [Section(title, charts=[chart], tables=[table(columns, rows)])]


def by_length(
    lengths: np.ndarray,
    right: np.ndarray,
    title: str = "By length",
    unit: str = "tokens",
    share: str = "accuracy",
) -> list[Section]:
    """Return a section with the accuracy by length, in up to five bins of about equal size.

    There is none if nearly all examples have the same length. The lengths are `[examples]`, at
    least one, in a unit; other arguments are those of `by_group`.
    """
    inner = np.quantile(lengths, np.linspace(0, 1, _MOST_BINS + 1)[1:-1], method="lower")
    starts = sorted({int(lengths.min()), *(int(edge) + 1 for edge in inner)})
    starts = [start for start in starts if start <= lengths.max()]
    numbers = np.searchsorted(starts, lengths, side="right") - 1
    names = []
    for number in range(len(starts)):
        of = lengths[numbers == number]
        low, high = int(of.min()), int(of.max())
        names.append(f"{low}" if low == high else f"{low}\u2013{high}")
    return by_group(title, np.array(names)[numbers], right, unit, share, order=names)


def by_label(
    name: str, unit: str, counts: Iterable[tuple[str, int, int, int]], title: str = ""
) -> Table:
    """Return a table of precision, recall and F1, which are empty where they are undefined.

    Args:
        name: heading of the labels.
        unit: what has them, in the plural.
        counts: of each label: how many have it, are predicted to have it, and are so correctly.
        title: as of `Table`.
    """

    def share(part: int, whole: int) -> float | None:
        return part / whole if whole else None

    rows = [
        (label, of, found, share(right, found), share(right, of), share(2 * right, of + found))
        for label, of, found, right in counts
    ]
    shares = dict.fromkeys(("precision", "recall", "F1"), ".1%")
    return table({name: "", unit: ",", "predicted": ",", **shares}, rows, title)


def predictions(
    name: str, probabilities: Mapping[str, Sequence[float] | np.ndarray], count: int
) -> Section:
    """Return how often each label is predicted for `count` examples, and the mean probability.

    The name is the heading of the labels, each of which has the probabilities of its predictions.
    """
    rows = []
    for label, of in probabilities.items():
        share = len(of) / count
        mean = np.mean(of) if len(of) else None
        rows.append((label, Shade(f"{share:.1%}", share), len(of), mean))
    columns = {name: "", "share": ">", "predictions": ",", "mean probability": ".1%"}
    return Section("Predictions", tables=[table(columns, rows)])


def calibration(confidence: np.ndarray, right: np.ndarray) -> Section:
    """Compare the probabilities of predictions with how often these are correct.

    The expected calibration error is that of Guo et al. (arXiv 1706.04599): ten bins of equal
    width, weighted by their examples. Both arrays are `[examples]`.
    """
    number = np.minimum((10 * confidence).astype(int), 9)
    bins, error = [], 0.0
    for of in (number == each for each in np.unique(number)):
        accuracy, interval = right[of].mean(), wilson(right[of].sum(), of.sum())
        bins.append(Bar(str(confidence[of].mean()), accuracy, interval.low, interval.high))
        error += of.mean() * abs(accuracy - confidence[of].mean())
    text = (
        f"Predictions have a mean probability of {confidence.mean():.1%}, and {right.mean():.1%} "
        f"of them are correct. The expected calibration error is {error:.1%} (ten bins of equal "
        "width); a calibrated model is on the dashed line."
    )
    return Section("Calibration", text, charts=[reliability(bins)])
