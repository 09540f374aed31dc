"""Examples that fit into memory, at their own lengths, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.input.pretraining import fill_up


class Features:
    """What a model reads of some examples: token ids at their own lengths, and fixed arrays.

    Args:
        sequences: for each sequence its token ids and their segment ids.
        pad_id: what fills a sequence up.
        choices: sequences of each example, one after the other; their features are then
            `[examples, choices, seq]`. 0: one sequence each, and no such axis.
        arrays: anything else by feature name, `[examples, ...]`: labels, positions.
        tokens_cut: tokens that each example lost, since its text was too long; `[examples]`.

    Attributes:
        lengths: int32 `[sequences]`.
        arrays: as given.
        tokens_cut: as given; zeros where nothing was.
    """

    def __init__(
        self,
        sequences: Iterable[tuple[Sequence[int], Sequence[int]]],
        pad_id: int,
        choices: int = 0,
        arrays: dict[str, np.ndarray] | None = None,
        tokens_cut: Sequence[int] | None = None,
    ):
        ids, segments, lengths = [], [], []
        for tokens, segment in sequences:
            ids.append(np.asarray(tokens, np.int32))
            segments.append(np.asarray(segment, np.int8))
            lengths.append(len(tokens))
        self._ids = np.concatenate(ids) if ids else np.zeros(0, np.int32)
        self._segments = np.concatenate(segments) if segments else np.zeros(0, np.int8)
        self.lengths = np.array(lengths, np.int32)
        self.pad_id = pad_id
        self.choices = choices
        self.arrays = dict(arrays or {})
        cut = np.zeros(len(self)) if tokens_cut is None else tokens_cut
        self.tokens_cut = np.asarray(cut, np.int32)

    def __len__(self) -> int:
        """Examples."""
        return len(self.lengths) // (self.choices or 1)

    @property
    def example_lengths(self) -> np.ndarray:
        """int32 `[examples]`: the length of each example's longest sequence."""
        return self.lengths.reshape(-1, self.choices or 1).max(axis=1, initial=0)

    def padded(self, length: int) -> dict[str, np.ndarray]:
        """`input_ids`, `input_mask` and `segment_ids` at one length, int32, and the arrays."""
        mask = np.arange(length) < self.lengths[:, None]
        ids = np.full(mask.shape, self.pad_id, np.int32)
        segments = np.zeros(mask.shape, np.int32)
        ids[mask], segments[mask] = self._ids, self._segments
        tokens = {"input_ids": ids, "input_mask": mask.astype(np.int32), "segment_ids": segments}
        if self.choices:
            tokens = {
                name: value.reshape(-1, self.choices, length) for name, value in tokens.items()
            }
        return {**tokens, **self.arrays}


def training_batches(
    features: Features, max_seq_length: int, batch_size: int, seed: int, first_step: int = 0
) -> tf.data.Dataset:
    """Endless batches, every epoch in another order that `seed` fixes; `first_step` are left out.

    Args:
        features: of the examples.
        max_seq_length: length to which they are filled up.
        batch_size: examples in a batch; a batch may span two epochs.
        seed: seed of the orders.
        first_step: batches to leave out, for a run that goes on.
    """
    examples = tf.data.Dataset.from_tensor_slices(features.padded(max_seq_length))
    examples = examples.shuffle(len(features), seed=seed, reshuffle_each_iteration=True).repeat()
    examples = examples.skip(first_step * batch_size)
    return examples.batch(batch_size, drop_remainder=True).prefetch(4)


def evaluation_batches(features: Features, max_seq_length: int, batch_size: int) -> tf.data.Dataset:
    """All examples once, in order; the last batch is filled up (see `fill_up`)."""
    batches = tf.data.Dataset.from_tensor_slices(features.padded(max_seq_length)).batch(batch_size)
    return batches.map(lambda batch: fill_up(batch, batch_size)).prefetch(4)
