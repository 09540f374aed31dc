"""How many minimal pairs a model has right: results by phenomenon, and their table."""

from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.input.minimal_pairs import Pair
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import Table, table

# What results about all pairs, and those about a phenomenon, begin with.
ALL, _EACH = "pairs", "pairs/"


def results(pairs: Sequence[Pair], scores: np.ndarray) -> dict[str, float]:
    """Return the share of pairs whose good sentence has the higher score, and their number.

    These are `pairs_accuracy` and `pairs_weight`, and of each phenomenon
    `pairs/PHENOMENON_accuracy` and `pairs/PHENOMENON_weight`. NaN if a score, of `[pairs, 2]`, is.
    """
    right = (scores[:, 0] > scores[:, 1]).astype(np.float64)
    if np.isnan(scores).any():
        right[:] = np.nan
    named = {ALL: np.ones(len(pairs), bool)}
    phenomena = np.array([pair.phenomenon for pair in pairs])
    named |= {f"{_EACH}{name}": phenomena == name for name in sorted(set(phenomena) - {""})}
    found = {}
    for name, chosen in named.items():
        found[f"{name}_accuracy"] = float(right[chosen].mean())
        found[f"{name}_weight"] = float(chosen.sum())
    return found


def pairs_table(found: Mapping[str, float], others: Mapping[str, float] | None = None) -> Table:
    """Return accuracies as a table with 95% intervals, one phenomenon per row.

    `found`, and maybe `others` by the original score, are as of `results`.
    """
    rows = []
    for name, count in found.items():
        stem = name.removesuffix("_weight")
        if name == stem or not stem.startswith((_EACH, f"{ALL}_")) and stem != ALL:
            continue
        row = ["all" if stem == ALL else stem.removeprefix(_EACH).replace("_", " "), count]
        for each in (found, others or {}):
            accuracy = each.get(f"{stem}_accuracy")
            interval = None if accuracy is None else wilson(accuracy * count, count)
            row += [accuracy, interval and f"{interval.low:.1%} to {interval.high:.1%}"]
        rows.append(row)
    shown = {"phenomenon": "", "pairs": ",.0f", "accuracy": ".1%", "95% interval": ">"}
    return table({**shown, "original": ".1%", "its interval": ">"}, rows)
