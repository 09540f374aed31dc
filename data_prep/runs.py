"""The files between the two passes of data preparation, with which a whole corpus is shuffled.

Every example has its own random number, and the order of a data set is the order of these numbers.
The range of numbers is divided into *buckets* small enough for memory. Each block of text gives a
*run*: a file of its examples, sorted by bucket; a bucket is then a slice of every run. A corpus of
any size is shuffled in two passes, both of which read and write sequentially.
"""

import contextlib
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
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
# The header of a run has an entry for each bucket: where it begins in the file, how many examples
# and tokens it has, the CRC-32 of both, and that of the entry up to here.
_NUMBER = np.dtype("<u8")
_NUMBERS = 5


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
        """Return the slice of a bucket that is in this run."""
        part = slice(self.begins[number], self.begins[number + 1])
        return Bucket(self.examples[part], _gather_tokens(self.ids, self.spans[part]))


def token_dtype(vocab_size: int) -> type[np.unsignedinteger]:
    """Return the smallest dtype for the ids of a vocabulary."""
    return np.uint16 if vocab_size <= 2**16 else np.uint32


def make_run(
    ids: np.ndarray, copies: Sequence[Pairs], documents: np.ndarray, random_seed: int, buckets: int
) -> Run:
    """Sort the pairs of a block into buckets.

    Args:
        copies: the pairs of the block, one element for each time it was cut.
        documents: uint64 `[documents]`, numbers that identify each document in the corpus.
        random_seed, buckets: seed of the order, and number of buckets.
    """
    examples = np.empty(sum(len(pairs.seeds) for pairs in copies), EXAMPLE)
    spans = np.concatenate([pairs.spans for pairs in copies])
    examples["seed"] = np.concatenate([pairs.seeds for pairs in copies])
    examples["document"] = np.concatenate([documents[pairs.documents] for pairs in copies])
    examples["first"] = spans[:, 1] - spans[:, 0]
    examples["second"] = spans[:, 3] - spans[:, 2]
    examples["label"] = np.concatenate([pairs.labels for pairs in copies])
    # The upper half of the random number, as a fraction, decides the bucket.
    upper = derive_seeds(random_seed, examples["seed"]) >> np.uint64(32)
    bucket_of = ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)
    order = np.argsort(bucket_of, kind="stable")
    begins = np.searchsorted(bucket_of[order], np.arange(buckets + 1))
    return Run(ids, spans[order], examples[order], begins)


def merge(slices: Sequence[Bucket], random_seed: int) -> tuple[Bucket, np.ndarray]:
    """Join the slices of a bucket, in the order of the runs, and determine its order.

    Returns:
        The bucket, still in the order of the slices, and its shuffled order, int64 `[examples]`.
    """
    bucket = Bucket(
        np.concatenate([np.empty(0, EXAMPLE), *(part.examples for part in slices)]),
        np.concatenate([np.empty(0, np.uint16), *(part.tokens for part in slices)]),
    )
    numbers = derive_seeds(random_seed, bucket.examples["seed"])
    return bucket, np.argsort(numbers, kind="stable")


class DamagedRunError(Exception):
    """A run is missing, or not as it was written; its argument is the path."""


def write_run(path: str, run: Run) -> None:
    """Write a run: its header, then the examples and tokens of each bucket."""
    buckets = len(run.begins) - 1
    header = np.zeros((buckets, _NUMBERS), _NUMBER)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        for number in range(buckets):
            examples, tokens = bucket = run.bucket(number)
            header[number, :4] = file.tell(), len(examples), len(tokens), _checksum(bucket)
            header[number, 4] = zlib.crc32(header[number, :4].tobytes())
            file.write(examples.tobytes())
            file.write(tokens.tobytes())
        file.seek(0)
        file.write(header.tobytes())


def read_bucket(path: str, number: int, dtype: type[np.unsignedinteger]) -> Bucket:
    """Read the slice of a bucket from a run of `write_run`; `dtype` is that of the tokens.

    Raises:
        DamagedRunError: If the run is missing, or the slice is not as it was written.
    """
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(number * _NUMBERS * _NUMBER.itemsize)
        entry = np.fromfile(file, _NUMBER, _NUMBERS)
        if len(entry) == _NUMBERS and zlib.crc32(entry[:4].tobytes()) == entry[4]:
            begin, examples, tokens, checksum, _ = entry.tolist()
            file.seek(begin)
            found = Bucket(np.fromfile(file, EXAMPLE, examples), np.fromfile(file, dtype, tokens))
            if _checksum(found) == checksum:
                return found
    raise DamagedRunError(path)


def _checksum(bucket: Bucket) -> int:
    return zlib.crc32(bucket.tokens.tobytes(), zlib.crc32(bucket.examples.tobytes()))


@compiled
def _gather_tokens(ids: np.ndarray, spans: np.ndarray) -> np.ndarray:
    sizes = (spans[:, 1] - spans[:, 0]) + (spans[:, 3] - spans[:, 2])
    tokens = np.empty(sizes.sum(), ids.dtype)
    position = 0
    for row in range(len(spans)):
        for side in (0, 2):
            size = spans[row, side + 1] - spans[row, side]
            tokens[position : position + size] = ids[spans[row, side] : spans[row, side + 1]]
            position += size
    return tokens
