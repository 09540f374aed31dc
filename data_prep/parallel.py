"""Worker processes: results in order, bounded memory, no hang when a process is killed.

    with Workers(4, initializer, (options,)) as workers:
        for result in workers.map(function, items):
            ...

With one process, all calls happen in the current one.
"""

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from albert_tf.children import stoppable

Item = TypeVar("Item")
Result = TypeVar("Result")

# A function and its arguments.
_Setup = tuple[Callable[..., None] | None, tuple[Any, ...]]
# A result, or an error and its traceback.
_Answer = tuple[Any, BaseException | None, str]
# A function, its argument, their number and where the answer goes.
_Call = tuple[Callable[[Any], Any], Any, int, queue.SimpleQueue[tuple[int, _Answer]]]

_KILLED = (
    "a worker process was killed, possibly for lack of memory; rerun the same command, with a "
    "smaller --num_processes if memory was short"
)

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

    Each is served by a thread and has a pipe of its own, the other end of which no process has. If
    it dies in the middle of a message, reading ends, and nothing that others need stays locked, as
    can happen to `concurrent.futures.ProcessPoolExecutor`. The main thread waits for results on a
    `SimpleQueue`: a signal's exception within the locks of a `Future`, which are Python code, can
    leave one locked for ever.

    Args:
        processes: their number; with 1, all calls happen in this process.
        initializer: called first in every process, with `initargs`, to set up what calls share.
    """

    def __init__(
        self,
        processes: int,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        self._processes = processes
        self._setup = (initializer, initargs)
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._open = contextlib.ExitStack()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for every item, in the order of the items.

        Only a few items are taken, and a few results kept, at a time.

        Raises:
            ChildProcessError: If a worker process died.
        """
        if self._processes == 1:
            yield from map(function, items)
            return
        done: queue.SimpleQueue[tuple[int, _Answer]] = queue.SimpleQueue()
        answers: dict[int, _Answer] = {}
        called = taken = 0

        def take() -> Result:
            while taken not in answers:
                answers.update([done.get()])
            result, error, trace = answers.pop(taken)
            if error is not None:
                raise error from (RuntimeError(f"in a worker process:\n{trace}") if trace else None)
            return result

        for item in items:
            self._calls.put((function, item, called, done))
            called += 1
            if called - taken >= (1 + QUEUED_PER_PROCESS) * self._processes:
                yield take()
                taken += 1
        while taken < called:
            yield take()
            taken += 1

    def _call(self, connection: Connection) -> None:
        """Pass calls on to one process, and its answers back, until there is None."""
        setup: _Setup | None = self._setup
        while call := self._calls.get():
            function, item, number, done = call
            try:
                connection.send((setup, function, item))
                setup = None
                answer = connection.recv()
            except (EOFError, OSError):
                answer = None, ChildProcessError(_KILLED), ""
            except Exception as error:  # of pickling
                answer = None, error, ""
            done.put((number, answer))

    def __enter__(self) -> "Workers":
        with self._open:  # closed by an error
            self._open.enter_context(stoppable())
            if self._processes > 1:
                with _signals_deferred():
                    for _ in range(self._processes):
                        self._start()
            elif self._setup[0]:
                self._setup[0](*self._setup[1])
            self._open = self._open.pop_all()
        return self

    def _start(self) -> None:
        # `spawn`, not `fork`: this process may have threads running.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with theirs:
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
        self._open.callback(process.join)
        self._open.callback(process.kill)  # paused ones, too; all work is written whole or not
        self._open.callback(self._calls.put, None)
        threading.Thread(target=self._call, args=(ours,), daemon=True).start()

    def __exit__(self, *exception: object) -> None:
        self._open.close()


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals to this process, and block Ctrl-C in processes started meanwhile.

    A process that is still loading its modules, or whose parent ends then, would print a traceback.
    """
    resource_tracker.ensure_running()  # it would unblock the signal when the first process starts
    received: list[int] = []
    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                # Blocked signals reach other threads, and this one raises an error then.
                replaced[number] = handler
                signal.signal(number, lambda number, frame: received.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def _serve(connection: Connection) -> None:
    """Answer calls with (result, error, traceback), until the other end is closed."""
    # Ctrl-C reaches every process of a terminal; only the parent should report it. The parent may
    # have been started with the signal ignored.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = connection.recv_bytes()
            try:
                setup, function, item = pickle.loads(message)
                if setup and setup[0]:
                    setup[0](*setup[1])
                connection.send((function(item), None, ""))
            except BaseException as error:  # also one of pickling, before anything is sent
                connection.send((None, error, traceback.format_exc()))


def _exit_with_parent() -> None:
    """Exit when the parent process is gone; otherwise this process would wait forever."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
