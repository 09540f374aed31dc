"""Batches that threads prepare ahead, through the library grain."""

from __future__ import annotations

import os
from collections.abc import Iterator

import grain

from albert_tf.input.streams import Batch, BatchSource

# More threads than this fight for the lock of the interpreter.
_MOST_THREADS = 16
# Batches beyond those that threads work on: enough for a step that takes less time than others.
_READY = 4


class PrefetchedBatches(Iterator[Batch]):
    """The batches of a source, in order and up to its end, which threads prepare ahead.

    The threads start with the first batch. They end when the iterator is closed, at its end or
    after an error, or when nothing refers to it any more, and after what they are working on.

    Args:
        source: the batches.
        first: number of the first batch.
    """

    def __init__(self, source: BatchSource, first: int = 0):
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads + _READY)
        batches = grain.MapDataset.source(source).to_iter_dataset(options)
        iterator = iter(batches)
        iterator.set_state({"next_index": min(first, len(source))})
        self._batches: Iterator[Batch] = iterator
        self._close = iterator.close

    def __next__(self) -> Batch:
        """Return the next batch.

        Raises:
            StopIteration: After the last batch, an error, or `close`.
            InputError, OSError: Whatever the source raises for the batch.
        """
        try:
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the threads, without waiting for them."""
        self._close()
        self._batches = iter(())

    def __enter__(self) -> PrefetchedBatches:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
