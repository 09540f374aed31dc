"""Examples in memory as NumPy batches, by the number of the batch.

They come in the order of `albert_tf.input.example_order`.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from albert_tf.input.example_order import (
    WINDOW,
    TrainingOrder,
    batch_lengths,
    evaluation_order,
    fitting,
)
from albert_tf.input.examples import Features
from albert_tf.input.streams import ENDLESS, WHOLE, Batch, Shard

# Epochs whose order is kept: threads prepare batches of two of them at once, and if an epoch is
# short, of more.
_EPOCHS_KEPT = 16


@dataclasses.dataclass(frozen=True)
class MemoryStream:
    """Batches of examples in memory, padded to one of few lengths.

    Attributes:
        features: of the examples.
        max_seq_length: length of the longest batches.
        batch_size: examples in a global batch.
        seed: of the order of endless batches (`TrainingOrder`); None for every example once, the
            longest first.
        pad_to_max_length: whether every batch has that length; examples are not sorted then.
    """

    features: Features
    max_seq_length: int
    batch_size: int
    seed: int | None = None
    pad_to_max_length: bool = False

    def batches(self, shard: Shard = WHOLE) -> MemoryBatches:
        """Return the batches of a pipeline.

        Raises:
            ValueError: If a sequence is longer than `max_seq_length`.
        """
        return MemoryBatches(self, shard)


class MemoryBatches:
    """The batches of a `MemoryStream`, or of one of its shards.

    Batch `step` is always the same, and any step is as fast as the first one.
    """

    def __init__(self, stream: MemoryStream, shard: Shard):
        self._features, self._rows = stream.features, shard.rows(stream.batch_size)
        lengths = stream.features.lengths.astype(np.int64)
        self._starts = np.cumsum(lengths) - lengths  # of the sequences in `features.ids`
        self._buckets = batch_lengths(
            stream.features, stream.max_seq_length, stream.pad_to_max_length
        )
        lengths, seed = stream.features.example_lengths, stream.seed
        self._order: TrainingOrder | None = None
        if seed is None:
            self._numbers = evaluation_order(lengths, stream.batch_size)
            real = np.where(self._numbers >= 0, lengths[np.maximum(self._numbers, 0)], 0)
            self._lengths = fitting(self._buckets, real)
            return
        window = 1 if stream.pad_to_max_length else WINDOW
        self._order = TrainingOrder(lengths, stream.batch_size, seed, window)
        # Of a function, not of a method: a cycle of references would delay its release.
        self._of_epoch = functools.lru_cache(_EPOCHS_KEPT)(
            functools.partial(_of_epoch, self._order, lengths, self._buckets)
        )

    @property
    def element_spec(self) -> dict[str, tuple[tuple[int | None, ...], np.dtype]]:
        """Shape and dtype of every array."""
        rows, choices = self._rows.stop - self._rows.start, self._features.choices
        sequence = (choices,) if choices else ()
        length = self._buckets[0] if len(self._buckets) == 1 else None
        integer = np.dtype(np.int32)
        spec = dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids"), ((rows, *sequence, length), integer)
        )
        spec |= {
            name: ((rows, *value.shape[1:]), value.dtype)
            for name, value in self._features.arrays.items()
        }
        if self._order is None:
            spec |= dict.fromkeys(("example_number", "is_real_example"), ((rows,), integer))
        return spec

    def __len__(self) -> int:
        """Return the number of batches, the same for every shard; `ENDLESS` if they do not end."""
        return len(self._numbers) if self._order is None else ENDLESS

    def __getitem__(self, step: int) -> Batch:
        """Return the shard's rows of a batch.

        Returns:
            Arrays `[rows, ...]`; `input_ids`, `input_mask` and `segment_ids` are int32
            `[rows, seq]`, or `[rows, choices, seq]`. `seq` is that of the global batch. Batches
            that end also have `example_number`, int32 `[rows]`, the index of each example in
            `features`, and `is_real_example`, int32 `[rows]`. What pads the last batch is the first
            example again; it has the values -1 and 0 there.

        Raises:
            IndexError: If there is no such batch.
        """
        if not 0 <= step < len(self):
            raise IndexError(step)
        if self._order is None:
            numbers = self._numbers[step, self._rows]
            batch = self._gather(np.maximum(numbers, 0), int(self._lengths[step]))
            is_real = (numbers >= 0).astype(np.int32)
            return batch | {"example_number": numbers, "is_real_example": is_real}
        epoch, number = self._order.locate(step)
        examples, lengths = self._of_epoch(epoch)
        return self._gather(examples[number, self._rows], int(lengths[number]))

    def _gather(self, examples: np.ndarray, length: int) -> Batch:
        """Return the features of the examples with these numbers, `[rows]`, padded to a length."""
        features, sequences = self._features, examples
        if features.choices:
            sequences = examples[:, None] * features.choices + np.arange(features.choices)
        columns = np.arange(length)
        mask = columns < features.lengths[sequences][..., None]
        stored = (self._starts[sequences][..., None] + columns)[mask]
        ids = np.full(mask.shape, features.pad_id, np.int32)
        segments = np.zeros(mask.shape, np.int32)
        ids[mask], segments[mask] = features.ids[stored], features.segments[stored]
        tokens = {"input_ids": ids, "input_mask": mask.astype(np.int32), "segment_ids": segments}
        return tokens | {name: value[examples] for name, value in features.arrays.items()}


def _of_epoch(
    order: TrainingOrder, lengths: np.ndarray, buckets: tuple[int, ...], epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples of the batches that begin in an epoch, and the length of each batch."""
    examples = order.of_epoch(epoch)
    return examples, fitting(buckets, lengths[examples])
