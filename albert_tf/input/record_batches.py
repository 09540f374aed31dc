"""TFRecords of pretraining examples as NumPy batches, by the number of the batch.

The batches are those of the TensorFlow engine, in the order of `albert_tf.input.record_order`.
Several threads may ask for batches at once.
"""

from __future__ import annotations

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

_Window = tuple[np.ndarray, list[list[bytes]]]


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
        numbers, records = self._windows.get(window)
        start = step * self._batch_size
        positions = np.arange(start + self._rows.start, start + self._rows.stop)
        return self._make(records[batch], numbers[batch], positions)


class RecordEvaluationBatches:
    """All examples once, in the order of the files; the last batch is padded.

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
        self._index = index
        self._make = _BatchMaker(index, features, masks, seed, dynamic.EVALUATION)
        self._batch_size = batch_size
        self._examples = index.examples
        self._rows = share.rows(batch_size)

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
        start = step * self._batch_size
        bounds = start + self._rows.start, start + self._rows.stop
        numbers = np.arange(*np.minimum(bounds, self._examples))
        batch = self._make(read_records(self._index, numbers), numbers, numbers)
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


class _Windows:
    """The records of windows of the training order, read ahead and shared by threads.

    Args:
        index: of the files.
        order: which records to read.

    Attributes:
        batches: number of batches in a window.
    """

    def __init__(self, index: RecordIndex, order: RecordOrder):
        self._index, self._order = index, order
        self.batches = order.batches
        self._kept = max(_WINDOWS_KEPT, 2 + -(-_BATCHES_KEPT // order.batches))
        self._lock = threading.Lock()
        self._windows: OrderedDict[int, Future[_Window]] = OrderedDict()

    def get(self, window: int) -> _Window:
        """The numbers of the records of a window, and the records: `[batches, rows]` each."""
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


def _read_window(index: RecordIndex, order: RecordOrder, window: int) -> _Window:
    numbers = order.of_window(window)
    records = read_records(index, numbers.ravel())
    rows = numbers.shape[1]
    return numbers, [records[at : at + rows] for at in range(0, len(records), rows)]
