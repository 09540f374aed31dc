"""Examples held in memory, with every sequence at its own length, and their batches.

The cost of a batch grows with its longest sequence. So examples of similar length are grouped, and
a batch is padded to the smallest of a few lengths (`length_buckets`): few, since some devices and
kernels compile every length separately.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import numpy as np

from albert_tf.input.streams import ENDLESS, WHOLE, Batch, Shard

# Batches whose examples are sorted by length together: enough for similar lengths in a batch, few
# enough that batches differ from epoch to epoch.
WINDOW = 50
# Epochs whose order is kept: threads prepare batches of two of them at once, and if an epoch is
# short, of more.
_EPOCHS_KEPT = 16


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
        extras: names of attributes of a subclass, arrays or numbers, that `to_arrays` has, too.
    """

    extras: ClassVar[tuple[str, ...]] = ()

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
        kept = ("first_windows", *self.extras)
        return self.inputs() | {name: np.asarray(getattr(self, name)) for name in kept}

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
        for name in cls.extras:
            setattr(features, name, arrays[name])
        # Files of earlier versions contain no windows.
        features.first_windows = arrays.get("first_windows", np.arange(len(features)))
        features.arrays = {
            name.removeprefix("arrays/"): value
            for name, value in arrays.items()
            if name.startswith("arrays/")
        }
        return features


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

    def batches(self, shard: Shard = WHOLE) -> "MemoryBatches":
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
        longest, limit = int(stream.features.lengths.max(initial=0)), stream.max_seq_length
        if longest > limit:
            raise ValueError(f"a sequence of {longest} tokens, at most {limit} are expected")
        self._buckets = (limit,) if stream.pad_to_max_length else length_buckets(limit)
        lengths, seed = stream.features.example_lengths, stream.seed
        self._order: TrainingOrder | None = None
        if seed is None:
            by_length = np.argsort(-lengths, kind="stable").astype(np.int32)
            padded = np.pad(by_length, (0, -len(by_length) % stream.batch_size), mode="edge")
            self._examples = padded.reshape(-1, stream.batch_size)
            self._lengths = _fitting(self._buckets, lengths[self._examples])
            return
        window = 1 if stream.pad_to_max_length else WINDOW
        order = TrainingOrder(lengths, stream.batch_size, seed, window)
        self._order, buckets = order, self._buckets

        # Of a function, not of a method: a cycle of references would delay its release.
        @functools.lru_cache(_EPOCHS_KEPT)
        def of_epoch(epoch: int) -> tuple[np.ndarray, np.ndarray]:
            examples = order.of_epoch(epoch)
            return examples, _fitting(buckets, lengths[examples])

        self._of_epoch = of_epoch

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
        return len(self._examples) if self._order is None else ENDLESS

    def __getitem__(self, step: int) -> Batch:
        """Return the shard's rows of a batch.

        Returns:
            Arrays `[rows, ...]`; `input_ids`, `input_mask` and `segment_ids` are int32
            `[rows, seq]`, or `[rows, choices, seq]`. `seq` is that of the global batch. Batches
            that end also have `example_number`, int32 `[rows]`, the index of each example in
            `features`, and `is_real_example`, int32 `[rows]`. What pads the last batch is the last
            example again; it has the values -1 and 0 there.

        Raises:
            IndexError: If there is no such batch.
        """
        if not 0 <= step < len(self):
            raise IndexError(step)
        if self._order is None:
            examples = self._examples[step, self._rows]
            places = step * self._examples.shape[1] + np.arange(self._rows.start, self._rows.stop)
            is_real = places < len(self._features)
            numbers = np.where(is_real, examples, -1)
            batch = self._features.padded(int(self._lengths[step]), examples)
            return batch | {"example_number": numbers, "is_real_example": is_real.astype(np.int32)}
        epoch, number = self._order.locate(step)
        examples, lengths = self._of_epoch(epoch)
        return self._features.padded(int(lengths[number]), examples[number, self._rows])


def length_buckets(max_seq_length: int) -> tuple[int, ...]:
    """Return the lengths of batches: 8, 12, 16, 24, 32, 48, 64, 96, ... and `max_seq_length`.

    Powers of two and the midpoints between them waste at most a third. Each length is a program to
    compile, so more of them pay only in long runs.
    """
    lengths, power = [], 8
    while power < max_seq_length:
        lengths += [power, power * 3 // 2]
        power *= 2
    return (*(length for length in lengths if length < max_seq_length), max_seq_length)


def _fitting(buckets: Sequence[int], lengths: np.ndarray) -> np.ndarray:
    """Return the smallest bucket that holds each of `[batches, examples]`, int32 `[batches]`."""
    longest = lengths.max(axis=1, initial=0)
    return np.array(buckets, np.int32)[np.searchsorted(buckets, longest)]


class TrainingOrder:
    """The examples of each training batch, as a function of these arguments alone.

    Examples come in epochs without gaps between them, each with every example once in its own
    order. Batches within an epoch are sorted by length within windows of so many batches, and then
    shuffled; a batch that spans two epochs is left as it is.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int, window: int = WINDOW):
        self._lengths = lengths
        self._size = batch_size
        self._seed = seed % 2**64
        self._window = window

    def locate(self, step: int) -> tuple[int, int]:
        """Return the epoch in which batch `step` begins, and its number in the epoch."""
        epoch = step * self._size // len(self._lengths)
        return epoch, step - self._first(epoch)

    def of_epoch(self, epoch: int) -> np.ndarray:
        """Return the batches that begin in an epoch: examples, int32 `[batches, batch_size]`.

        There may be none, if a batch spans several epochs.
        """
        size, start = self._size, epoch * len(self._lengths)
        first, after = self._first(epoch), self._first(epoch + 1)
        whole = max((start + len(self._lengths)) // size, first)
        inside = self._examples(first * size, whole * size).reshape(-1, size)
        draw = np.random.default_rng([self._seed, epoch, 1])
        windows = range(0, len(inside) if self._window > 1 else 0, self._window)
        for begin in windows:
            batches = inside[begin : begin + self._window]
            by_length = np.argsort(self._lengths[batches.ravel()], kind="stable")
            batches[:] = draw.permutation(batches.ravel()[by_length].reshape(-1, size))
        spanning = self._examples(whole * size, after * size).reshape(-1, size)
        return np.concatenate([inside, spanning]).astype(np.int32)

    def _first(self, epoch: int) -> int:
        """Return the number of the first batch that begins in an epoch or later."""
        return -(-epoch * len(self._lengths) // self._size)

    def _examples(self, start: int, end: int) -> np.ndarray:
        count = len(self._lengths)
        parts: list[np.ndarray] = [np.zeros(0, np.int64)]
        for epoch in range(start // count, -(-end // count) if end > start else 0):
            order = np.random.default_rng([self._seed, epoch]).permutation(count)
            parts.append(order[max(start - epoch * count, 0) : end - epoch * count])
        return np.concatenate(parts)
