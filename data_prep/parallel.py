"""Worker processes: results in order, bounded memory, no hang when one is killed.

    with Workers(4, initializer, (options,)) as workers:
        for result in workers.map(function, items):
            ...

With one process everything happens in this one.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items given out beyond those at work: enough that no process waits for the slowest one.
_WAITING_PER_PROCESS = 3


def process_count(num_processes: int) -> int:
    """How many processes `--num_processes` means: 0 stands for all the cores this one may use."""
    if num_processes:
        return num_processes
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that call functions for this one.

    Args:
        processes: how many; 1 works in this process.
        initializer: called first in every process, for what all its calls share.
        initargs: its arguments.
    """

    def __init__(
        self,
        processes: int,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        self._processes = processes
        self._executor = None
        if processes > 1:
            # `spawn`, not `fork`: this process may have threads running.
            self._executor = ProcessPoolExecutor(
                processes,
                multiprocessing.get_context("spawn"),
                _prepare,
                (initializer, initargs),
            )
        elif initializer:
            initializer(*initargs)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields `function(item)` of every item, in the order of the items.

        Items are taken, and results kept, a few at a time.

        Raises:
            ChildProcessError: a worker process died.
        """
        if self._executor is None:
            yield from map(function, items)
            return
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(self._executor.submit(function, item))
                if len(waiting) >= (1 + _WAITING_PER_PROCESS) * self._processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a worker process was killed, perhaps for want of memory; start the same command "
                "again, with a smaller --num_processes if it was memory"
            ) from None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)


def _prepare(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer:
        initializer(*initargs)


def _end_with_parent() -> None:
    """Ends this process when its parent is gone; it would wait for work forever."""
    multiprocessing.parent_process().join()
    os._exit(1)
