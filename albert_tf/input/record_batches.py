"""TFRecords of pretraining examples as NumPy batches, by the number of the batch.

The batches are those of the TensorFlow engine, in the order of `albert_tf.input.record_order`.
Several threads may ask for batches at once.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from albert_tf.input import dynamic
from albert_tf.input.example_parser import ExampleParser
from albert_tf.input.features import Feature
from albert_tf.input.manifest import DynamicMasks
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_order import RecordOrder
from albert_tf.input.record_reader import read_records
from albert_tf.input.share import WHOLE, Share

# Windows that are kept: the one before, which threads may still need, the current one, and the one
# after, which is read ahead. If windows are short, as many as hold the batches of all threads.
_WINDOWS_KEPT = 3
_BATCHES_KEPT = 64
# Records that evaluation reads together: as many blocks as threads of `read_records`.
_EVALUATION_WINDOW = 2048

# The numbers of the records of every batch, and the records.
_Window = list[tuple[np.ndarray, list[bytes]]]


class RecordTrainingBatches:
    """Endless shuffled batches; every epoch has every example once, in its own order.

    The order is a function of `index`, `batch_size`, `seed` and `shuffle_buffer_size`. Where the
    files contain no masks, masks (and swaps, see `DynamicMasks`) are a function of `seed` and of an
    example's position in that order. So batch `step` is always the same.

    The records of a window of the order are read together, by several threads, when its first batch
    is asked for; after that, those of the next one are read ahead. Three windows of
    `2 * shuffle_buffer_size` records are kept in memory, of which a `share` holds its part.

    Args:
        index: of TFRecord files, with an example at least.
        features: what an example contains.
        batch_size: examples in a global batch.
        seed: seed of the order and of what is drawn.
        shuffle_buffer_size: size of a shuffle buffer that would shuffle as well.
        masks: what to draw; None where the files contain masks.
        share: rows to make of every batch; only their blocks are read.
    """

    def __init__(
        self,
        index: RecordIndex,
        features: Mapping[str, Feature],
        batch_size: int,
        seed: int,
        shuffle_buffer_size: int = 10000,
        masks: DynamicMasks | None = None,
        share: Share = WHOLE,
    ):
        self._make = _BatchMaker(index, features, masks, seed, dynamic.TRAINING)
        self._batch_size = batch_size
        self._rows = share.rows(batch_size)
        self._windows = _Windows(
            index, RecordOrder(index, batch_size, seed, shuffle_buffer_size, share)
        )

    def __len__(self) -> int:
        """More batches than anything asks for."""
        return sys.maxsize

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        """The share's rows of batch `step`, from 0: `[rows, ...]`, int32 or float32.

        Raises:
            InputError: a record is damaged, or its example has other features, lengths or values.
            OSError: a file cannot be read. A window that could not be read is not read again.
        """
        window, batch = divmod(step, self._windows.batches)
        numbers, records = self._windows.get(window)[batch]
        start = step * self._batch_size
        positions = np.arange(start + self._rows.start, start + self._rows.stop)
        return self._make(records, numbers, positions)


class RecordEvaluationBatches:
    """All examples once, in the order of the files; the last batch is padded.

    They are read in windows, as for training.

    Args:
        index, features, batch_size, masks, share: as of `RecordTrainingBatches`.
        seed: seed of what is drawn, which is the same in every evaluation.
    """

    def __init__(
        self,
        index: RecordIndex,
        features: Mapping[str, Feature],
        batch_size: int,
        seed: int = 0,
        masks: DynamicMasks | None = None,
        share: Share = WHOLE,
    ):
        self._make = _BatchMaker(index, features, masks, seed, dynamic.EVALUATION)
        self._batch_size = batch_size
        self._examples = index.examples
        self._rows = share.rows(batch_size)
        self._windows = _Windows(index, _FileOrder(index.examples, batch_size, self._rows))

    def __len__(self) -> int:
        """Number of batches, the same for every share."""
        return -(-self._examples // self._batch_size)

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        """The share's rows of batch `step`.

        Returns:
            As from `RecordTrainingBatches`, with `is_real_example`, int32 `[rows]`, which is 0 for
            what pads the last batch with zeros.

        Raises:
            IndexError: there is no such batch.
            InputError, OSError: as from `RecordTrainingBatches`.
        """
        if not 0 <= step < len(self):
            raise IndexError(step)
        window, number = divmod(step, self._windows.batches)
        numbers, records = self._windows.get(window)[number]
        batch = self._make(records, numbers, numbers)
        batch["is_real_example"] = np.ones(len(numbers), np.int32)
        padding = self._rows.stop - self._rows.start - len(numbers)
        return {
            name: np.pad(value, [(0, padding)] + [(0, 0)] * (value.ndim - 1))
            for name, value in batch.items()
        }


class _BatchMaker:
    """Makes batches of serialized examples.

    Args:
        index: of their files, for errors.
        features: what they contain.
        masks, seed, purpose: what to draw, as in `dynamic.draw`.
    """

    def __init__(
        self,
        index: RecordIndex,
        features: Mapping[str, Feature],
        masks: DynamicMasks | None,
        seed: int,
        purpose: int,
    ):
        self._index, self._masks, self._seed, self._purpose = index, masks, seed, purpose
        self._parse = ExampleParser(features)

    def __call__(
        self, records: list[bytes], numbers: np.ndarray, positions: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Parses a batch, and draws what its files leave open.

        Args:
            records: the examples.
            numbers: their numbers in all files, for errors.
            positions: int64 `[batch]`, the number of each visit of an example.
        """
        batch = self._parse(records, lambda row: self._index.name_of(int(numbers[row])))
        if self._masks is None:
            return batch
        return batch | dynamic.draw(batch, positions, self._masks, self._seed, self._purpose)


class _FileOrder:
    """The order of the files, in windows.

    Args:
        examples: number of all records.
        batch_size: examples in a global batch.
        rows: those to read of every batch.
    """

    def __init__(self, examples: int, batch_size: int, rows: slice):
        self._examples, self._batch_size, self._rows = examples, batch_size, rows
        self.batches = max(_EVALUATION_WINDOW // batch_size, 1)

    def of_window(self, window: int) -> list[np.ndarray]:
        """The numbers of the records of every batch in a window, fewer or none at the end."""
        starts = (window * self.batches + np.arange(self.batches)) * self._batch_size
        ends = np.minimum(starts + self._rows.stop, self._examples)
        return [
            np.arange(start + self._rows.start, end)
            for start, end in zip(starts, ends, strict=True)
        ]


class _Windows:
    """The records of windows of an order, read ahead and shared by threads.

    Args:
        index: of the files.
        order: which records to read.

    Attributes:
        batches: number of batches in a window.
    """

    def __init__(self, index: RecordIndex, order: RecordOrder | _FileOrder):
        self._index, self._order = index, order
        self.batches = order.batches
        self._kept = max(_WINDOWS_KEPT, 2 + -(-_BATCHES_KEPT // order.batches))
        self._lock = threading.Lock()
        self._windows: OrderedDict[int, Future[_Window]] = OrderedDict()

    def get(self, window: int) -> _Window:
        """The batches of a window."""
        with self._lock:
            found = self._started(window)
            if found.done():  # so as not to delay the first batch
                self._started(window + 1)
            while len(self._windows) > self._kept:
                self._windows.popitem(last=False)
        return found.result()

    def _started(self, window: int) -> Future[_Window]:
        """A window that is being read; `_lock` is held."""
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
