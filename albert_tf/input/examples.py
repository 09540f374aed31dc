"""Examples held in memory, with every sequence at its own length."""

import functools
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np


class Features:
    """The input of a model for some examples: sequences without padding, and other arrays.

    Args:
        sequences: token ids and segment ids of each sequence.
        pad_id: id of the padding token.
        choices: number of sequences per example, given consecutively; features then have shape
            `[examples, choices, seq]`. 0: one sequence per example, without that axis.
        arrays: other features by name, such as labels or positions, `[examples, ...]`.
        tokens_cut: number of tokens that each example lost to truncation, `[examples]`.
        first_windows: index of the first example of each text, ascending, if texts that are too
            long are several examples; None if every text is one.

    Attributes:
        ids: int32 `[tokens]`, the token ids of all sequences.
        segments: int8 `[tokens]`, their segment ids.
        lengths: int32 `[sequences]`, lengths of the sequences.
        pad_id, choices, arrays: as given.
        tokens_cut: int32 `[examples]`, as given; zeros by default.
        first_windows: int64 `[texts]`, as given; by default all examples.
    """

    def __init__(
        self,
        sequences: Iterable[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]],
        pad_id: int,
        choices: int = 0,
        arrays: dict[str, np.ndarray] | None = None,
        tokens_cut: Sequence[int] | None = None,
        first_windows: Sequence[int] | None = None,
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
        first = range(len(self)) if first_windows is None else first_windows
        self.first_windows = np.asarray(first, np.int64)

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.lengths) // (self.choices or 1)

    @property
    def example_lengths(self) -> np.ndarray:
        """The length of the longest sequence of each example, int32 `[examples]`."""
        return self.lengths.reshape(-1, self.choices or 1).max(axis=1, initial=0)

    @property
    def windows_per_text(self) -> np.ndarray:
        """The number of examples that each text is, int64 `[texts]`."""
        return np.diff(self.first_windows, append=len(self))

    @property
    def texts_split(self) -> int:
        """The number of texts that are several examples."""
        return int((self.windows_per_text > 1).sum())

    def padded(self, length: int, examples: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Pad the sequences of examples with some numbers, by default all, to one length.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, int32 `[examples, length]` or
            `[examples, choices, length]`, and the other arrays.
        """
        examples = np.arange(len(self)) if examples is None else examples
        sequences = examples
        if self.choices:
            sequences = examples[:, None] * self.choices + np.arange(self.choices)
        columns = np.arange(length)
        mask = columns < self.lengths[sequences][..., None]
        stored = (self._starts[sequences][..., None] + columns)[mask]
        ids = np.full(mask.shape, self.pad_id, np.int32)
        segments = np.zeros(mask.shape, np.int32)
        ids[mask], segments[mask] = self.ids[stored], self.segments[stored]
        tokens = {"input_ids": ids, "input_mask": mask.astype(np.int32), "segment_ids": segments}
        return tokens | {name: value[examples] for name, value in self.arrays.items()}

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """Where the sequences begin in `ids`."""
        lengths = self.lengths.astype(np.int64)
        return np.cumsum(lengths) - lengths

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays by name, to be written to a file."""
        return {**self.inputs(), "first_windows": self.first_windows}

    def inputs(self) -> dict[str, np.ndarray]:
        """Return arrays by name without those that the model does not read."""
        return {
            "ids": self.ids,
            "segments": self.segments,
            "lengths": self.lengths,
            "tokens_cut": self.tokens_cut,
            "pad_id_and_choices": np.array([self.pad_id, self.choices]),
            **{f"arrays/{name}": value for name, value in self.arrays.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Restore features from the arrays of `to_arrays`; ignore other names."""
        pad_id, choices = arrays["pad_id_and_choices"].tolist()
        features = cls([], pad_id, choices)
        features.ids, features.segments = arrays["ids"], arrays["segments"]
        features.lengths, features.tokens_cut = arrays["lengths"], arrays["tokens_cut"]
        # Files of earlier versions contain no windows.
        features.first_windows = arrays.get("first_windows", np.arange(len(features)))
        features.arrays = {
            name.removeprefix("arrays/"): value
            for name, value in arrays.items()
            if name.startswith("arrays/")
        }
        return features
