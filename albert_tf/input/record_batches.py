"""TFRecords of pretraining examples as NumPy batches, by the number of the batch.

They come in the order of `albert_tf.input.record_order`. What `--masking=dynamic` draws for them is
a function of the seed of a run and of the number of the visit, not of the process that draws it.
"""

import dataclasses
import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.example_parser import ExampleParser
from albert_tf.input.features import Feature
from albert_tf.input.masking import Masks, derive_seeds, draw_masks
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_order import RecordOrder
from albert_tf.input.record_reader import read_records
from albert_tf.input.rows import TOKEN_FEATURES, Places
from albert_tf.input.streams import ENDLESS, WHOLE, Batch, Shard

# Windows that are kept: the one before, which threads may still need, the current one, and the one
# after, which is read ahead. If windows are short, as many as hold the batches of all threads.
_WINDOWS_KEPT = 3
_BATCHES_KEPT = 64
# Records that evaluation reads together: as many blocks as threads of `read_records`.
_EVALUATION_WINDOW = 2048

# What visits are for: an evaluation draws other numbers than training with the same seed.
TRAINING, EVALUATION = 0, 1

# Seeds of masks are derived from one of these, seeds of swaps from one of them plus this.
_SWAPS = 4

# The stored features that `draw` changes.
DRAWN = (*TOKEN_FEATURES, "next_sentence_labels")

# The numbers of the records of every batch, and the records.
_Window = list[tuple[np.ndarray, list[bytes]]]


@dataclasses.dataclass(frozen=True)
class RecordStream:
    """Batches of TFRecord files.

    With a shuffle buffer they are endless and shuffled, and every epoch has every example once, in
    its own order. Without one, they have every example once, in the order of the files.

    Everything is a function of these attributes, so a run that resumes sees the batches that an
    uninterrupted run would see. Where the files contain no masks, masks (and swaps, see
    `Masks`) are a function of `seed` and of an example's position in that order: they change
    from epoch to epoch, but not from evaluation to evaluation.

    Attributes:
        index: of TFRecord files, with an example at least.
        features: what an example contains.
        batch_size: examples in a global batch of the order.
        seed: of the order and of what is drawn.
        masks: what to draw; None where the files contain masks.
        shuffle_buffer_size: size of a shuffle buffer that would shuffle as well; None to shuffle
            nothing.
        parts: batches that each one of the order is divided into, which must be endless. Each takes
            every `parts`-th row, and so mixes as many blocks; shards keep their examples.
    """

    index: RecordIndex
    features: dict[str, Feature]
    batch_size: int
    seed: int = 0
    masks: Masks | None = None
    shuffle_buffer_size: int | None = None
    parts: int = 1

    @property
    def is_endless(self) -> bool:
        """Whether the batches are shuffled and do not end."""
        return self.shuffle_buffer_size is not None

    def draw_masks(self, batch: Batch, positions: np.ndarray) -> Batch:
        """Return the features that `masks` draws for the examples at some positions."""
        assert self.masks is not None
        purpose = TRAINING if self.is_endless else EVALUATION
        return draw(batch, positions, self.masks, self.seed, purpose)

    def batches(self, shard: Shard = WHOLE) -> "RecordBatches":
        """Return the batches of a pipeline."""
        return RecordBatches(self, shard)


class RecordBatches:
    """The batches of a `RecordStream`, or of one of its shards, which reads only its own blocks.

    The records of a window of the order are read together, by several threads, when its first batch
    is asked for; after that, those of the next one are read ahead. Three windows of
    `2 * shuffle_buffer_size` records are kept in memory, of which a shard holds its part.
    """

    def __init__(self, stream: RecordStream, shard: Shard):
        self._stream, self._rows = stream, shard.rows(stream.batch_size)
        self._parse = ExampleParser(stream.features)
        size = stream.shuffle_buffer_size
        self._windows = _Windows(
            stream.index,
            _FileOrder(stream.index.examples, stream.batch_size, self._rows)
            if size is None
            else RecordOrder(stream.index, stream.batch_size, stream.seed, size, shard),
        )

    def __len__(self) -> int:
        """Return the number of batches, the same for every shard; `ENDLESS` if they do not end."""
        stream = self._stream
        return ENDLESS if stream.is_endless else -(-stream.index.examples // stream.batch_size)

    def __getitem__(self, step: int) -> Batch:
        """Return the shard's rows of a batch.

        Returns:
            Arrays `[rows, ...]`, int32 or float32; in batches that end also `is_real_example`,
            int32 `[rows]`, which is 0 for what pads the last batch with zeros.

        Raises:
            IndexError: If there is no such batch.
            InputError: If a record is damaged, or has other features, lengths or values.
            OSError: If a file cannot be read. A window that could not be read is not read again.
        """
        if not 0 <= step < len(self):
            raise IndexError(step)
        stream = self._stream
        whole, part = divmod(step, stream.parts)
        window, number = divmod(whole, self._windows.batches)
        numbers, records = self._windows.get(window)[number]
        numbers, records = numbers[part :: stream.parts], records[part :: stream.parts]
        batch = self._parse(records, lambda row: stream.index.name_of(int(numbers[row])))
        if stream.masks is not None:
            start = whole * stream.batch_size + self._rows.start + part
            positions = start + np.arange(len(numbers)) * stream.parts
            batch |= stream.draw_masks(batch, positions)
        if stream.is_endless:
            return batch
        batch["is_real_example"] = np.ones(len(numbers), np.int32)
        padding = self._rows.stop - self._rows.start - len(numbers)
        return {
            name: np.pad(value, [(0, padding)] + [(0, 0)] * (value.ndim - 1))
            for name, value in batch.items()
        }


class _FileOrder:
    """The order of the files, in windows, of some rows of every batch."""

    def __init__(self, examples: int, batch_size: int, rows: slice):
        self._examples, self._batch_size, self._rows = examples, batch_size, rows
        self.batches = max(_EVALUATION_WINDOW // batch_size, 1)

    def of_window(self, window: int) -> list[np.ndarray]:
        """Return the record numbers of each batch in a window; fewer or none at the end."""
        starts = (window * self.batches + np.arange(self.batches)) * self._batch_size
        ends = np.minimum(starts + self._rows.stop, self._examples)
        return [
            np.arange(start + self._rows.start, end)
            for start, end in zip(starts, ends, strict=True)
        ]


class _Windows:
    """The records of windows of an order, read ahead and shared by threads."""

    def __init__(self, index: RecordIndex, order: RecordOrder | _FileOrder):
        self._index, self._order = index, order
        self.batches = order.batches
        self._kept = max(_WINDOWS_KEPT, 2 + -(-_BATCHES_KEPT // order.batches))
        self._lock = threading.Lock()
        self._windows: OrderedDict[int, Future[_Window]] = OrderedDict()

    def get(self, window: int) -> _Window:
        with self._lock:
            found = self._started(window)
            if found.done():  # so as not to delay the first batch
                self._started(window + 1)
            while len(self._windows) > self._kept:
                self._windows.popitem(last=False)
        return found.result()

    def _started(self, window: int) -> Future[_Window]:
        """Return a window that is being read; `_lock` is held."""
        if window not in self._windows:
            # A thread of its own for every window ends by itself, whatever becomes of this object.
            thread = ThreadPoolExecutor(1, "read-window")
            self._windows[window] = thread.submit(_read_window, self._index, self._order, window)
            thread.shutdown(wait=False)
        self._windows.move_to_end(window)
        return self._windows[window]


def _read_window(index: RecordIndex, order: RecordOrder | _FileOrder, window: int) -> _Window:
    batches = order.of_window(window)
    records = iter(read_records(index, np.concatenate(batches)))
    return [(numbers, list(itertools.islice(records, len(numbers)))) for numbers in batches]


def draw(
    batch: Mapping[str, np.ndarray], numbers: np.ndarray, masks: Masks, seed: int, purpose: int
) -> dict[str, np.ndarray]:
    """Draw which pairs of a batch are swapped, where their files leave that open, and masks.

    Args:
        batch: features of examples or rows without masks (`features.unmasked_features`,
            `row_features`), `[batch, ...]`; not modified.
        numbers: int64 `[batch]`, a number for each visit of an example or a row.
        masks, seed: what to draw, and the seed of the run.
        purpose: `TRAINING` or `EVALUATION`.

    Returns:
        The features that are changed or new, int32 and float32.
    """
    tokens = {name: np.array(batch[name], np.int32) for name in TOKEN_FEATURES}
    labels = np.array(batch["next_sentence_labels"], np.int32)
    if has_rows := "example_ids" in batch:
        places = Places.find(batch["example_ids"])
        visits = [numbers[places.row], places.number + 1]
    else:
        places = Places.alone(batch["input_mask"].sum(1, dtype=np.int32))
        visits = [numbers]
    if masks.swap_segments:
        swapped = derive_seeds(seed, purpose + _SWAPS, *visits) >> np.uint64(63)
        labels[places.row, places.number] = swapped
        swap_segments(*tokens.values(), places, swapped.astype(np.bool_))
    masked = draw_masks(
        tokens["input_ids"],
        places.length,
        tokens["token_boundary"],
        derive_seeds(seed, purpose, *visits),
        masks,
        places if has_rows else None,
    )
    return tokens | masked.features() | {"next_sentence_labels": labels}


@compiled
def swap_segments(input_ids, segment_ids, token_boundary, places, swapped):
    """`[CLS] a [SEP] b [SEP]` becomes `[CLS] b [SEP] a [SEP]` where `swapped` is true."""
    for example, row in enumerate(places.row):
        first, end = places.begin[example], places.length[example] - 1  # position of the last [SEP]
        segments = segment_ids[row, first : first + end + 1]
        separator = 0
        while separator < end and segments[separator + 1] == 0:
            separator += 1
        if not swapped[example] or separator == end:
            continue
        second = end - separator - 1  # length of b
        for of_rows in (input_ids, token_boundary):
            values = of_rows[row, first : first + end]
            old = values.copy()
            values[1 : 1 + second] = old[separator + 1 : end]
            values[1 + second] = old[separator]
            values[2 + second : end] = old[1:separator]
        segments[: 2 + second] = 0
        segments[2 + second :] = 1
