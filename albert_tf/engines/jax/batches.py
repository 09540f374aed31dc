"""Batches that threads prepare ahead, through the library grain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

import grain
import numpy as np

# More threads than this fight for the lock of the interpreter.
_MOST_THREADS = 16
# Batches beyond those that threads work on: enough for a step that takes less time than others.
_READY = 4

Batch = dict[str, np.ndarray]


class BatchSource(Protocol):
    """Batches by number, from 0; several threads ask for them at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, step: int, /) -> Batch: ...


def prefetched(source: BatchSource, first: int = 0) -> PrefetchedBatches:
    """Iterates over `source[first]`, `source[first + 1]`, ... up to its end.

    Args:
        source: the batches.
        first: number of the first batch.
    """
    return PrefetchedBatches(source, first)


class PrefetchedBatches(Iterator[Batch]):
    """The batches of a source in order, which threads prepare ahead.

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

    def __next__(self) -> Batch:
        """The next batch.

        Raises:
            StopIteration: after the last batch, an error, or `close`.
            InputError, OSError: whatever the source raises for the batch.
        """
        try:
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the threads, without waiting for them."""
        batches, self._batches = self._batches, iter(())
        if hasattr(batches, "close"):  # the empty iterator of a second call has none
            batches.close()

    def __enter__(self) -> PrefetchedBatches:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
