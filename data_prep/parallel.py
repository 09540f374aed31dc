"""Worker processes: results in order, bounded memory, no hang when a process is killed.

    with Workers(4, initializer, (options,)) as workers:
        for result in workers.map(function, items):
            ...

With one process, all calls happen in the current one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from albert_tf.children import stoppable

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items queued beyond those being processed: enough that no process waits for the slowest one.
QUEUED_PER_PROCESS = 3
# Starting a process takes about a second, which a smaller input does not save.
_MIN_BYTES_PER_PROCESS = 2_000_000


def process_count(num_processes: int, input_bytes: int | None = None) -> int:
    """Return the number of processes to start.

    Args:
        num_processes: the number requested; 0 stands for the cores available to this process.
        input_bytes: size of the input, if known; a small input gets fewer processes.
    """
    if not num_processes:
        has_affinity = hasattr(os, "sched_getaffinity")
        num_processes = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    if input_bytes is None:
        return num_processes
    return min(num_processes, 1 + input_bytes // _MIN_BYTES_PER_PROCESS)


class Workers:
    """Processes that call functions on behalf of this one.

    Args:
        processes: their number; with 1, all calls happen in this process.
        initializer: called first in every process, to set up what its calls share.
        initargs: arguments of `initializer`.
    """

    def __init__(
        self,
        processes: int,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        self._processes = processes
        self._executor: ProcessPoolExecutor | None = None
        self._open = contextlib.ExitStack()
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
        """Yield `function(item)` for every item, in the order of the items.

        Only a few items are taken, and a few results kept, at a time.

        Raises:
            ChildProcessError: If a worker process died.
        """
        if self._executor is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                with _interrupts_deferred():
                    waiting.append(self._executor.submit(function, item))
                if len(waiting) >= (1 + QUEUED_PER_PROCESS) * self._processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a worker process was killed, possibly for lack of memory; rerun the same command, "
                "with a smaller --num_processes if memory was short"
            ) from None

    def __enter__(self) -> Workers:
        if self._executor:
            # A process that SIGTERM ends leaves semaphores, about which Python's tracker complains.
            self._open.enter_context(stoppable())
            self._open.callback(self._executor.shutdown, cancel_futures=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C in this process, and blocks it in processes started meanwhile.

    A process that is still loading its modules would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    # Ctrl-C reaches every process of a terminal; only the parent should report it. The parent may
    # have been started with the signal ignored.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if initializer:
        initializer(*initargs)


def _exit_with_parent() -> None:
    """Exit when the parent process is gone; otherwise this process would wait forever."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
