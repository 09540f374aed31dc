"""Examples in memory as NumPy batches, by the number of the batch.

The batches are those of the TensorFlow engine, in the order of `albert_tf.input.example_order`.
Several threads may ask for batches at once.
"""

from __future__ import annotations

import functools
import sys

import numpy as np

from albert_tf.input.example_order import (
    WINDOW,
    TrainingOrder,
    batch_lengths,
    evaluation_order,
    fitting,
)
from albert_tf.input.examples import Features
from albert_tf.input.share import WHOLE, Share

# Epochs whose order is kept: threads prepare batches of two of them at once, and if an epoch is
# short, of more.
_EPOCHS_KEPT = 16


class MemoryTrainingBatches:
    """Endless batches; every epoch has every example once, in its own order.

    Batch `step` is always the same, and any step is as fast as the first one.

    Args:
        features: of the examples.
        max_seq_length: length of the longest batches.
        batch_size: examples in a global batch.
        seed: of the orders (`TrainingOrder`).
        pad_to_max_length: whether every batch has that length; examples are not sorted then.
        share: rows to make of every batch.

    Raises:
        ValueError: a sequence is longer than `max_seq_length`.
    """

    def __init__(
        self,
        features: Features,
        max_seq_length: int,
        batch_size: int,
        seed: int,
        pad_to_max_length: bool = False,
        share: Share = WHOLE,
    ):
        self._features = features
        self._starts = _starts(features)
        self._rows = share.rows(batch_size)
        buckets = batch_lengths(features, max_seq_length, pad_to_max_length)
        lengths = features.example_lengths
        self._order = TrainingOrder(lengths, batch_size, seed, 1 if pad_to_max_length else WINDOW)
        # Of a function, not of a method: a cycle of references would delay its release.
        self._of_epoch = functools.lru_cache(_EPOCHS_KEPT)(
            functools.partial(_of_epoch, self._order, lengths, buckets)
        )

    def __len__(self) -> int:
        """More batches than anything asks for."""
        return sys.maxsize

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        """The share's rows of batch `step`, from 0.

        Returns:
            Arrays `[rows, ...]`; `input_ids`, `input_mask` and `segment_ids` are int32
            `[rows, seq]`, or `[rows, choices, seq]`. `seq` is that of the global batch.
        """
        epoch, number = self._order.locate(step)
        examples, lengths = self._of_epoch(epoch)
        return _gather(
            self._features, self._starts, examples[number, self._rows], int(lengths[number])
        )


class MemoryEvaluationBatches:
    """All examples once, the longest first.

    Args:
        features, max_seq_length, batch_size, pad_to_max_length, share: as of
            `MemoryTrainingBatches`.

    Raises:
        ValueError: a sequence is longer than `max_seq_length`.
    """

    def __init__(
        self,
        features: Features,
        max_seq_length: int,
        batch_size: int,
        pad_to_max_length: bool = False,
        share: Share = WHOLE,
    ):
        self._features = features
        self._starts = _starts(features)
        self._rows = share.rows(batch_size)
        buckets = batch_lengths(features, max_seq_length, pad_to_max_length)
        lengths = features.example_lengths
        self._order = evaluation_order(lengths, batch_size)
        padded = np.where(self._order >= 0, lengths[np.maximum(self._order, 0)], 0)
        self._lengths = fitting(buckets, padded)

    def __len__(self) -> int:
        """Number of batches, the same for every share."""
        return len(self._order)

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        """The share's rows of batch `step`.

        Returns:
            As from `MemoryTrainingBatches`, with `example_number`, int32 `[rows]`, the index of
            each example in `features`, and `is_real_example`, int32 `[rows]`. What pads the last
            batch is the first example again; it has the values -1 and 0 there.

        Raises:
            IndexError: there is no such batch.
        """
        if not 0 <= step < len(self):
            raise IndexError(step)
        numbers = self._order[step, self._rows]
        length = int(self._lengths[step])
        batch = _gather(self._features, self._starts, np.maximum(numbers, 0), length)
        is_real = (numbers >= 0).astype(np.int32)
        return batch | {"example_number": numbers, "is_real_example": is_real}


def _of_epoch(
    order: TrainingOrder, lengths: np.ndarray, buckets: tuple[int, ...], epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """The examples of the batches that begin in an epoch, and the length of each batch."""
    examples = order.of_epoch(epoch)
    return examples, fitting(buckets, lengths[examples])


def _starts(features: Features) -> np.ndarray:
    """Where each sequence starts in `features.ids`, int64 `[sequences]`."""
    lengths = features.lengths.astype(np.int64)
    return np.cumsum(lengths) - lengths


def _gather(
    features: Features, starts: np.ndarray, examples: np.ndarray, length: int
) -> dict[str, np.ndarray]:
    """The features of the examples with these numbers, `[rows]`, padded to a length."""
    sequences = examples
    if features.choices:
        sequences = examples[:, None] * features.choices + np.arange(features.choices)
    places = np.arange(length)
    mask = places < features.lengths[sequences][..., None]
    stored = (starts[sequences][..., None] + places)[mask]
    ids = np.full(mask.shape, features.pad_id, np.int32)
    segments = np.zeros(mask.shape, np.int32)
    ids[mask], segments[mask] = features.ids[stored], features.segments[stored]
    tokens = {"input_ids": ids, "input_mask": mask.astype(np.int32), "segment_ids": segments}
    return tokens | {name: value[examples] for name, value in features.arrays.items()}
