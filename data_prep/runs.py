"""The files between the two passes of data preparation, with which a whole corpus is shuffled.

Every example has its own random number, and the order of a data set is the order of these numbers.
The range of numbers is divided into *buckets* small enough for memory. Each block of text gives a
*run*: a file of its examples, sorted by bucket; a bucket is then a slice of every run. A corpus of
any size is shuffled in two passes, both of which read and write sequentially.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.compiled import compiled
from albert_tf.input.masking import derive_seeds
from data_prep.segments import Pairs

EXAMPLE = np.dtype(
    [
        ("seed", "<u8"),
        ("document", "<u8"),  # identifies the document
        ("first", "<u4"),  # number of tokens in the first segment
        ("second", "<u4"),  # and in the second
        ("label", "u1"),
    ]
)
_EXAMPLES_AT_ONCE = 10_000


class Bucket(NamedTuple):
    """Examples that are shuffled together.

    Attributes:
        examples: `[examples]`, dtype `EXAMPLE`.
        tokens: uint16 or uint32 `[tokens]`: the first and second segment of every example.
    """

    examples: np.ndarray
    tokens: np.ndarray


class Run(NamedTuple):
    """The examples of a block of text, sorted by bucket.

    Attributes:
        ids: uint16 or uint32 `[tokens]`, the token ids of the block.
        spans: int64 `[examples, 4]`, offsets in `ids`, see `segments.Pairs`.
        examples: `[examples]`, dtype `EXAMPLE`.
        begins: int64 `[buckets + 1]`, index of the first example of each bucket.
    """

    ids: np.ndarray
    spans: np.ndarray
    examples: np.ndarray
    begins: np.ndarray

    def bucket(self, number: int) -> Bucket:
        """The slice of a bucket that is in this run."""
        part = slice(self.begins[number], self.begins[number + 1])
        return Bucket(self.examples[part], _gather_tokens(self.ids, self.spans[part]))


def token_dtype(vocab_size: int) -> type[np.unsignedinteger]:
    """The smallest dtype for the ids of a vocabulary."""
    return np.uint16 if vocab_size <= 2**16 else np.uint32


def make_run(
    ids: np.ndarray, copies: Sequence[Pairs], documents: np.ndarray, random_seed: int, buckets: int
) -> Run:
    """Sorts the pairs of a block into buckets.

    Args:
        ids: uint16 or uint32 `[tokens]`, the token ids of the block.
        copies: the pairs of the block, one element for each time it was cut.
        documents: uint64 `[documents]`, numbers that identify each document in the corpus.
        random_seed: seed of the order.
        buckets: number of buckets.
    """
    examples = np.empty(sum(len(pairs.seeds) for pairs in copies), EXAMPLE)
    spans = np.concatenate([pairs.spans for pairs in copies])
    examples["seed"] = np.concatenate([pairs.seeds for pairs in copies])
    examples["document"] = np.concatenate([documents[pairs.documents] for pairs in copies])
    examples["first"] = spans[:, 1] - spans[:, 0]
    examples["second"] = spans[:, 3] - spans[:, 2]
    examples["label"] = np.concatenate([pairs.labels for pairs in copies])
    # The upper half of the number, as a fraction, decides the bucket.
    upper = order_numbers(examples["seed"], random_seed) >> np.uint64(32)
    bucket_of = ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)
    order = np.argsort(bucket_of, kind="stable")
    begins = np.searchsorted(bucket_of[order], np.arange(buckets + 1))
    return Run(ids, spans[order], examples[order], begins)


def order_numbers(seeds: np.ndarray, random_seed: int) -> np.ndarray:
    """The numbers (uint64) whose order is the order of the data set."""
    return derive_seeds(random_seed, seeds)


def merge(slices: Sequence[Bucket], random_seed: int) -> tuple[Bucket, np.ndarray]:
    """Joins the slices of a bucket and determines its order.

    Args:
        slices: the slices, in the order of the runs.
        random_seed: seed of the order.

    Returns:
        The bucket, still in the order of the slices, and its shuffled order, int64 `[examples]`.
    """
    bucket = Bucket(
        np.concatenate([np.empty(0, EXAMPLE), *(part.examples for part in slices)]),
        np.concatenate([np.empty(0, np.uint16), *(part.tokens for part in slices)]),
    )
    numbers = order_numbers(bucket.examples["seed"], random_seed)
    return bucket, np.argsort(numbers, kind="stable")


def write_run(path: str, run: Run) -> None:
    """Writes a run: offsets of each bucket in examples and tokens, then the examples and tokens."""
    sizes = (run.spans[:, 1] - run.spans[:, 0]) + (run.spans[:, 3] - run.spans[:, 2])
    token_begins = np.concatenate([[0], np.cumsum(sizes)])[run.begins]
    with open(path, "wb") as file:
        file.write(np.stack([run.begins, token_begins], 1).astype("<i8").tobytes())
        file.write(run.examples.tobytes())
        for begin in range(0, len(run.spans), _EXAMPLES_AT_ONCE):
            file.write(
                _gather_tokens(run.ids, run.spans[begin : begin + _EXAMPLES_AT_ONCE]).tobytes()
            )


def read_buckets(
    paths: Sequence[str], bucket: int, buckets: int, dtype: type[np.unsignedinteger]
) -> Iterator[Bucket]:
    """Yields the slices of a bucket.

    Args:
        paths: runs written by `write_run`.
        bucket: number of the bucket.
        buckets: number of all buckets.
        dtype: dtype of the tokens.
    """
    token_size = np.dtype(dtype).itemsize
    for path in paths:
        with open(path, "rb") as file:
            file.seek(16 * bucket)
            begin, tokens_begin, end, tokens_end = np.fromfile(file, "<i8", 4).tolist()
            file.seek(16 * buckets)
            base = 16 * (buckets + 1)
            examples = int(np.fromfile(file, "<i8", 1)[0])
            file.seek(base + begin * EXAMPLE.itemsize)
            found = np.fromfile(file, EXAMPLE, end - begin)
            file.seek(base + examples * EXAMPLE.itemsize + tokens_begin * token_size)
            yield Bucket(found, np.fromfile(file, dtype, tokens_end - tokens_begin))


def _gather_tokens(ids: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The tokens of some spans, one after the other."""
    sizes = (spans[:, 1] - spans[:, 0]) + (spans[:, 3] - spans[:, 2])
    tokens = np.empty(int(sizes.sum()), ids.dtype)
    _gather(ids, spans, tokens)
    return tokens


@compiled
def _gather(ids, spans, tokens):
    position = 0
    for row in range(len(spans)):
        for side in (0, 2):
            size = spans[row, side + 1] - spans[row, side]
            tokens[position : position + size] = ids[spans[row, side] : spans[row, side + 1]]
            position += size
