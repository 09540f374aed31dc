"""How a worker that fails on its own ends the others, which may wait for it in a step forever."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError, StorageUnavailable, WorkerLost

_logger = logging.getLogger(__name__)

# Time for a report to arrive, and for a process to end by itself after one. The chief, to which all
# others are connected, takes twice as long.
_ARRIVAL_SECONDS, _GRACE_SECONDS = 1.0, 3.0


class Board(NamedTuple):
    """Texts of a run: `write(key, text)` once for each key; `read(key)` waits for the text."""

    write: Callable[[str, str], None]
    read: Callable[[str], str]


def failure_of(worker: str, is_unavailable: bool, reason: str = "") -> InputError | WorkerLost:
    """Return what the others raise when a worker has failed, or cannot reach its files for now."""
    why = f" ({reason})" if reason else ""
    if is_unavailable:
        return WorkerLost(
            f"{worker} cannot reach its files{why}; rerun the same command on all workers later"
        )
    return InputError(f"{worker} failed with an error that it has printed{why}; all workers stop")


def reason_of(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


class Failures:
    """Reports of workers that fail on their own; nothing interrupts the steps of the others.

    A thread of each worker waits for a report. The process that one reaches ends within seconds.

    Args:
        board: of the framework.
        index: number of this worker.
        names: of all workers.
    """

    def __init__(self, board: Board, index: int, names: Sequence[str]):
        self._board = board
        self._index = index
        self._names = names
        self._failure: Exception | None = None
        self._is_raised = False
        self._arrived = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="failures", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def report(self, error: Exception) -> None:
        """Report an error of this worker to all, also to its own thread."""
        self._is_raised = True
        for worker in range(len(self._names)):
            is_unavailable = isinstance(error, StorageUnavailable)
            self._write(worker, f"{self._index} {is_unavailable:d} {reason_of(error)}")

    def received(self) -> Exception | None:
        """Return what this worker is to raise if another one has failed."""
        self._is_raised = self._arrived.wait(_ARRIVAL_SECONDS)
        return self._failure

    def _write(self, worker: int, text: str) -> None:
        with contextlib.suppress(Exception):  # there is another report, or no connection
            self._board.write(f"albert_tf/failures/{worker}", text)

    def _wait(self) -> None:
        report = ""
        with contextlib.suppress(Exception):  # the connection has ended
            report = self._board.read(f"albert_tf/failures/{self._index}")
        if not report:
            return
        number, is_unavailable, reason = report.split(" ", 2)
        name = self._names[int(number)]
        failure = self._failure = failure_of(name, is_unavailable == "1", reason)
        self._arrived.set()
        time.sleep(_GRACE_SECONDS * (1 if self._index else 2))
        if not self._is_raised:
            _logger.error("%s", failure)
        os._exit(failure.exit_code if isinstance(failure, WorkerLost) else 1)

    def _stop(self) -> None:
        """Leave nothing waiting in the framework when the process ends by itself."""
        if not self._arrived.is_set():
            self._write(self._index, "")
            self._thread.join(_GRACE_SECONDS)
