"""The order of training examples: a function of seed and position that can be entered anywhere.

Step s takes the examples at positions s * batch_size to (s + 1) * batch_size. Epoch e, of N
examples, has positions e * N to (e + 1) * N. The example at a position is found as follows:

1. In every epoch, the blocks of all files (see `RecordIndex`) are put in a new random order. Their
   records, one after the other, are the sequence of the epoch.
2. Positions are divided into windows of twice `shuffle_buffer_size`, rounded up to whole batches.
   The records of a window are assigned to its positions at random. The factor is 2 because two
   examples that enter a shuffle buffer of n one after the other meet in a batch of b with
   probability b / 2n; two examples of a window of 2n do so too.
3. The rows of a batch are divided into up to 256 lanes of equal size. Within a window, the rows of
   a lane take consecutive records of the sequence.

Because of the lanes, the rows that one of several hosts makes come from blocks that follow each
other in the sequence, so each host reads its own share of the data; yet the order is the same for
any number of hosts. To start at a step, the window of that step is read.

`albert_tf.engines.tensorflow.records` computes the same order by TensorFlow operations.
"""

import functools
import math

import numpy as np

from albert_tf.input.masking import derive_seeds
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.streams import WHOLE, Shard

# Incremented whenever the same arguments give another order. 1 was a shuffle buffer over shuffled
# files, whose state at a step was known only after reading everything before it.
VERSION = 2

# What random numbers are drawn for; `albert_tf.input.record_batches` has the others.
BLOCK_SEED, POSITION_SEED = 2, 3

_LANES = 256
# Epochs whose order of blocks is kept: threads prepare batches of two of them at once.
_EPOCHS_KEPT = 2


def window_size(batch_size: int, shuffle_buffer_size: int) -> int:
    """Return the number of positions in a window."""
    return -(-2 * shuffle_buffer_size // batch_size) * batch_size


def lane_rows(batch_size: int) -> int:
    """Return the number of rows in a lane of a batch."""
    return batch_size // math.gcd(batch_size, _LANES)


class RecordOrder:
    """The records of each training batch, as a function of these arguments alone.

    Other arguments are attributes of `RecordStream`; `shard` is the pipeline whose rows to order.

    Attributes:
        batches: number of batches in a window.
    """

    def __init__(
        self,
        index: RecordIndex,
        batch_size: int,
        seed: int,
        shuffle_buffer_size: int,
        shard: Shard = WHOLE,
    ):
        self._examples = index.examples
        self._batch_size = batch_size
        self._window = window_size(batch_size, shuffle_buffer_size)
        self._position_seed = derive_seeds(seed, POSITION_SEED)
        self._rows = shard.rows(batch_size)
        self.batches = self._window // batch_size
        # Of a function, not of a method: a cycle of references would delay its release.
        self._sequence = functools.lru_cache(_EPOCHS_KEPT)(
            functools.partial(_sequence, index, derive_seeds(seed, BLOCK_SEED))
        )

    def of_window(self, window: int) -> np.ndarray:
        """Return the records of a window's batches, as numbers in all files, `[batches, rows]`."""
        begin, end = window * self._window, (window + 1) * self._window
        records = np.empty(end - begin, np.int64)
        for epoch in range(begin // self._examples, -(-end // self._examples)):
            start = epoch * self._examples
            low, high = max(begin, start), min(end, start + self._examples)
            records[low - begin : high - begin] = self._records(epoch, low - start, high - start)
        return records.reshape(self.batches, self._batch_size)[:, self._rows]

    def _records(self, epoch: int, low: int, high: int) -> np.ndarray:
        """Return the records at the positions `low` to `high` of an epoch, all of one window."""
        positions = np.arange(low, high) + epoch * self._examples
        lane = positions % self._batch_size // lane_rows(self._batch_size)
        random = derive_seeds(self._position_seed, positions) >> np.uint64(9)
        # Records are taken from the sequence in the order of (lane, random bits).
        by_rank = np.argsort(lane * 2**55 + random.astype(np.int64), kind="stable")
        first, begins = self._sequence(epoch)
        ranks = np.arange(low, high)
        block = np.searchsorted(begins, ranks, side="right") - 1
        found = np.empty(high - low, np.int64)
        found[by_rank] = first[block] + ranks - begins[block]
        return found


def _sequence(
    index: RecordIndex, block_seed: np.ndarray, epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first record of each block of an epoch: in all files, and in its sequence."""
    keys = derive_seeds(block_seed, epoch, np.arange(len(index.records))) >> np.uint64(1)
    order = np.argsort(keys, kind="stable")
    records = index.records[order]
    return index.first[order], np.cumsum(records) - records
