"""Which examples share a row (`create_pretraining_data --pack_rows`), by best fit.

A row is full in one of three ways: it has no room for more tokens, for more predictions, or as many
examples as a row may have.
"""

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.masking import derive_seeds


def plan_rows(
    lengths: np.ndarray,
    predictions: np.ndarray,
    capacities: tuple[int, int, int],
    seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Put examples into rows.

    Each example, from the longest one on, goes to the row in which it leaves the least room. If
    many are so short that the number of examples fills rows, long and short ones must share rows:
    then examples are taken in their own order, whichever needs fewer rows.

    Args:
        lengths: int32 `[examples]`, numbers of tokens, in random order.
        predictions: int64 `[examples]`, numbers of predictions.
        capacities: the largest number of tokens, of predictions and of examples in a row, each
            enough for any example.
        seeds: uint64 `[examples]`, which rows are shuffled by.

    Returns:
        The examples row after row, int64 `[examples]`, and the row of each of these, ascending.
        Examples of a row are in the order of the arguments.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    needs = lengths.astype(np.int64), predictions, capacities
    plans = [
        (_best_fit(order, *needs), order) for order in (longest_first, np.arange(len(lengths)))
    ]
    row_of, order = min(plans, key=lambda found: found[0].max(initial=0))
    opened_by = order[np.unique(row_of[order], return_index=True)[1]]
    rank: np.ndarray = np.empty(len(opened_by), np.int64)
    rank[np.argsort(derive_seeds(0, seeds[opened_by]))] = np.arange(len(opened_by))
    rows = rank[row_of]
    by_row = np.argsort(rows, kind="stable")
    return by_row, rows[by_row]


@compiled
def _best_fit(order, lengths, predictions, capacities):
    tokens, most_predictions, most_examples = capacities
    count = len(order)
    row_of = np.empty(count, np.int64)
    # Rows by their room for tokens: the last one that got it, and the one before in the same list.
    last = np.full(tokens + 1, -1, np.int64)
    before = np.empty(count, np.int64)
    predictions_left = np.empty(count, np.int64)
    examples_left = np.empty(count, np.int64)
    rows = 0
    for example in order:
        length, wanted = lengths[example], predictions[example]
        row, after, room = -1, -1, length
        while room < tokens:
            row, after = last[room], -1
            while row >= 0 and predictions_left[row] < wanted:
                row, after = before[row], row
            if row >= 0:
                break
            room += 1
        if row < 0:
            row, room = rows, tokens
            predictions_left[row], examples_left[row] = most_predictions, most_examples
            rows += 1
        elif after >= 0:
            before[after] = before[row]
        else:
            last[room] = before[row]
        row_of[example] = row
        predictions_left[row] -= wanted
        examples_left[row] -= 1
        if examples_left[row] and predictions_left[row]:
            before[row] = last[room - length]
            last[room - length] = row
    return row_of
