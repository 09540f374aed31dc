"""Rows of several examples (`features.row_features`): taken apart into examples, and put together.

What draws masks and swaps works on examples, `[examples, width]`. Between them and rows, `[rows,
seq]`, are their `Places`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.features import most_examples
from albert_tf.input.masking import Masking

# The features of a row that have a value for each token of its examples.
TOKEN_FEATURES = ("input_ids", "segment_ids", "token_boundary")


class Places(NamedTuple):
    """Where examples are in rows, row after row.

    Attributes:
        row: int64 `[examples]`, ascending.
        number: int64 `[examples]`, 0, 1, ... in each row.
        begin: int64 `[examples]`, position of the first token in the row.
        length: int32 `[examples]`, number of tokens.
    """

    row: np.ndarray
    number: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    @classmethod
    def find(cls, example_ids: np.ndarray) -> "Places":
        """Return the places of the examples of rows; `example_ids` are integers `[rows, seq]`."""
        rows, sequence = example_ids.shape
        before = np.zeros((rows, sequence + 1), example_ids.dtype)
        before[:, 1:] = example_ids
        starts = (example_ids != before[:, :-1]) & (example_ids > 0)
        row, begin = np.nonzero(starts)
        # An example ends where another one or the padding begins.
        padding = sequence - (example_ids > 0).sum(1)
        is_last = np.append(row[1:] != row[:-1], np.ones(min(len(row), 1), np.bool_))
        end = np.where(is_last, sequence - padding[row], np.append(begin[1:], 0)[: len(row)])
        return cls(row, example_ids[row, begin] - 1, begin, (end - begin).astype(np.int32))

    @classmethod
    def one_after_the_other(cls, row: np.ndarray, length: np.ndarray) -> "Places":
        """Return the places of examples by their rows, ascending, and lengths, `[examples]`."""
        first = np.searchsorted(row, row)
        begin = np.cumsum(length, dtype=np.int64) - length
        return cls(row, np.arange(len(row)) - first, begin - begin[first], length)

    def limits(self, masking: Masking, max_seq_length: int) -> np.ndarray:
        """Return how many predictions each example may have, int32 `[examples]`.

        All of them together have at most `masking.max_predictions` in each row.
        """
        wanted = masking.row_budgets(self.length, max_seq_length)
        used = np.cumsum(wanted) - wanted
        used -= used[np.searchsorted(self.row, self.row)]
        left = np.maximum(masking.max_predictions - used, 0)
        return np.minimum(wanted, left).astype(np.int32)

    def take(self, values: np.ndarray) -> np.ndarray:
        """Return values of the tokens of examples, int32 `[examples, width]`, from `[rows, seq]`.

        `width` is the largest length; padding is 0.
        """
        taken = np.zeros((len(self.row), self.length.max(initial=0)), np.int32)
        _copy(self.row, self.begin, self.length, taken, np.ascontiguousarray(values), True)
        return taken

    def put(self, taken: np.ndarray, values: np.ndarray) -> None:
        """Write values of examples, `[examples, width]`, into int32 `[rows, seq]`."""
        _copy(self.row, self.begin, self.length, taken, values, False)

    def replace(
        self, rows: Mapping[str, np.ndarray], examples: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return `TOKEN_FEATURES` of rows with those of examples, and their `masked_lm_*`, if any.

        No row may have more predictions than there is room for (`limits`).
        """
        replaced = {name: np.array(rows[name], np.int32) for name in TOKEN_FEATURES}
        for name, values in replaced.items():
            self.put(examples[name], values)
        if "masked_lm_weights" not in examples:
            return replaced
        example, column = np.nonzero(examples["masked_lm_weights"])
        row = self.row[example]
        at = row, np.arange(len(row)) - np.searchsorted(row, row)
        shape = len(rows["input_ids"]), examples["masked_lm_weights"].shape[1]
        for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            replaced[name] = np.zeros(shape, examples[name].dtype)
            replaced[name][at] = examples[name][example, column]
        replaced["masked_lm_positions"][at] += self.begin[example].astype(np.int32)
        return replaced

    def pack(self, examples: Mapping[str, np.ndarray], pad_id: int) -> dict[str, np.ndarray]:
        """Return the features of rows (`features.row_features`), int32 and float32.

        `examples` are features of each, `[examples, seq]` and so on, with or without masks.
        """
        shape = int(self.row[-1]) + 1, examples["input_ids"].shape[1]
        rows = {name: np.zeros(shape, np.int32) for name in TOKEN_FEATURES}
        rows["input_ids"][:] = pad_id
        rows = self.replace(rows, examples)
        rows["example_ids"] = np.zeros(shape, np.int32)
        numbers = self.number.astype(np.int32) + 1
        self.put(np.repeat(numbers[:, None], shape[1], axis=1), rows["example_ids"])
        for name, values in (
            ("cls_positions", self.begin.astype(np.int32)),
            ("next_sentence_labels", examples["next_sentence_labels"][:, 0]),
            ("next_sentence_weights", np.ones(len(self.row), np.float32)),
        ):
            rows[name] = np.zeros((shape[0], most_examples(shape[1])), values.dtype)
            rows[name][self.row, self.number] = values
        return rows


@compiled
def _copy(rows, begins, lengths, of_examples, of_rows, from_rows):
    for example in range(len(rows)):
        row, begin = rows[example], begins[example]
        for token in range(lengths[example]):
            if from_rows:
                of_examples[example, token] = of_rows[row, begin + token]
            else:
                of_rows[row, begin + token] = of_examples[example, token]
