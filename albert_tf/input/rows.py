"""Rows of several examples (`features.row_features`): taken apart into examples, and put together.

Between examples, `[examples, seq]`, and rows, `[rows, seq]`, are their `Places`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.features import most_examples

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
        places: np.ndarray = np.empty((4, example_ids.size), np.int64)
        row, number, begin, length = places[:, : _find(example_ids, places)]
        return cls(row, number, begin, length.astype(np.int32))

    @classmethod
    def alone(cls, length: np.ndarray) -> "Places":
        """Return the places of examples that have a row each."""
        row = np.arange(len(length))
        return cls(row, np.zeros_like(row), np.zeros_like(row), length)

    @classmethod
    def one_after_the_other(cls, row: np.ndarray, length: np.ndarray) -> "Places":
        """Return the places of examples by their rows, ascending, and lengths, `[examples]`."""
        first = np.searchsorted(row, row)
        begin = np.cumsum(length, dtype=np.int64) - length
        return cls(row, np.arange(len(row)) - first, begin - begin[first], length)

    def take(self, values: np.ndarray) -> np.ndarray:
        """Return values of examples, int32 `[examples, seq]`, from `[rows, seq]`; padding is 0."""
        taken = np.zeros((len(self.row), values.shape[1]), np.int32)
        _copy(self.row, self.begin, self.length, taken, np.ascontiguousarray(values), True)
        return taken

    def put(self, taken: np.ndarray, values: np.ndarray) -> None:
        """Write values of examples, `[examples, seq]`, into int32 `[rows, seq]`."""
        _copy(self.row, self.begin, self.length, taken, values, False)

    def pack(self, examples: Mapping[str, np.ndarray], pad_id: int) -> dict[str, np.ndarray]:
        """Return the features of rows without masks (`row_features`), int32 and float32.

        `examples` are features of each, `[examples, seq]` and so on.
        """
        shape = int(self.row[-1]) + 1, examples["input_ids"].shape[1]
        rows = {name: np.zeros(shape, np.int32) for name in TOKEN_FEATURES}
        rows["input_ids"][:] = pad_id
        for name in TOKEN_FEATURES:
            self.put(examples[name], rows[name])
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


def unpacked(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the features of the examples of rows, as they are in files without rows.

    Masks are those of `rows` if there are any. Padding is 0.
    """
    places, sequence = Places.find(rows["example_ids"]), rows["input_ids"].shape[1]
    examples = {name: places.take(rows[name]) for name in TOKEN_FEATURES}
    examples["input_mask"] = (np.arange(sequence) < places.length[:, None]).astype(np.int32)
    examples["next_sentence_labels"] = rows["next_sentence_labels"][places.row, places.number, None]
    if "masked_lm_weights" not in rows:
        return examples
    row, column = np.nonzero(rows["masked_lm_weights"])
    keys = row * sequence + rows["masked_lm_positions"][row, column]
    # A prediction belongs to the last example that begins at its position or before.
    example = np.searchsorted(places.row * sequence + places.begin, keys, side="right") - 1
    order = np.argsort(example, kind="stable")
    row, column, example = row[order], column[order], example[order]
    at = example, np.arange(len(example)) - np.searchsorted(example, example)
    for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
        values = np.zeros((len(places.row), rows[name].shape[1]), rows[name].dtype)
        values[at] = rows[name][row, column]
        examples[name] = values
    examples["masked_lm_positions"][at] -= places.begin[example]
    return examples


@compiled
def _find(example_ids, places):
    count = 0
    rows, sequence = example_ids.shape
    for row in range(rows):
        before = 0
        for position in range(sequence):
            number = example_ids[row, position]
            if number > 0 and number != before:
                places[0, count], places[1, count] = row, number - 1
                places[2, count], places[3, count] = position, 0
                count += 1
            if number > 0:
                places[3, count - 1] += 1
            before = number
    return count


@compiled
def _copy(rows, begins, lengths, of_examples, of_rows, from_rows):
    for example in range(len(rows)):
        row, begin, length = rows[example], begins[example], lengths[example]
        if from_rows:
            of_examples[example, :length] = of_rows[row, begin : begin + length]
        else:
            of_rows[row, begin : begin + length] = of_examples[example, :length]
