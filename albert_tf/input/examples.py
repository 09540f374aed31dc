"""Examples that fit into memory, each sequence at its own length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


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
        ids: int32, the token ids of all sequences, one after the other.
        segments: int8, their segment ids.
        lengths: int32 `[sequences]`.
        pad_id, choices, arrays: as given.
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
        self.ids = np.concatenate(ids) if ids else np.zeros(0, np.int32)
        self.segments = np.concatenate(segments) if segments else np.zeros(0, np.int8)
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
        ids[mask], segments[mask] = self.ids, self.segments
        tokens = {"input_ids": ids, "input_mask": mask.astype(np.int32), "segment_ids": segments}
        if self.choices:
            tokens = {
                name: value.reshape(-1, self.choices, length) for name, value in tokens.items()
            }
        return {**tokens, **self.arrays}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays by name, for a file."""
        return {
            "ids": self.ids,
            "segments": self.segments,
            "lengths": self.lengths,
            "tokens_cut": self.tokens_cut,
            "pad_id_and_choices": np.array([self.pad_id, self.choices]),
            **{f"arrays/{name}": value for name, value in self.arrays.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Features:
        """The features of which `to_arrays` made these; other names are left alone."""
        pad_id, choices = arrays["pad_id_and_choices"].tolist()
        features = cls([], pad_id, choices)
        features.ids, features.segments = arrays["ids"], arrays["segments"]
        features.lengths, features.tokens_cut = arrays["lengths"], arrays["tokens_cut"]
        features.arrays = {
            name.removeprefix("arrays/"): value
            for name, value in arrays.items()
            if name.startswith("arrays/")
        }
        return features
