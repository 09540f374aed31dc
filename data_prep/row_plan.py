"""Which examples share a row (`create_pretraining_data --pack_rows`): best fit, longest first.

A row is full in one of three ways: it has no room for more tokens, for more predictions, or as many
examples as a row may have.
"""

import numpy as np

from albert_tf.environment import compiled


def plan_rows(
    lengths: np.ndarray, predictions: np.ndarray, capacities: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Put examples into rows.

    Each example goes, from the longest one on, to the row in which it leaves the least room.

    Args:
        lengths: integers `[examples]`, numbers of tokens in shuffled order.
        predictions: integers `[examples]`, numbers of predictions.
        capacities: the largest number of tokens, of predictions and of examples in a row, each
            enough for any example.

    Returns:
        The examples row after row, int64 `[examples]`, and the row of each of these, ascending.
        Rows come in the order of their longest examples in the arguments, which is random, and
        examples of a row in the order of the arguments.
    """
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    row_of = _best_fit(
        order, np.asarray(lengths, np.int64), np.asarray(predictions, np.int64), capacities
    )
    # The example that opened a row, its longest, is the first of it in `order`.
    _, first = np.unique(row_of[order], return_index=True)
    rank: np.ndarray = np.empty(len(first), np.int64)
    rank[np.argsort(order[first])] = np.arange(len(first))
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
