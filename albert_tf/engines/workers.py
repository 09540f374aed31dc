"""Processes that train together: which one is the chief, what they agree on, how they fail.

A process that trains alone is its own chief, and none of these calls waits. All workers must make
the same calls in the same order, since each call waits for the others.
"""

import atexit
import contextlib
import dataclasses
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from albert_tf.errors import InputError, StorageUnavailable, WorkerLost
from albert_tf.files import shown

_logger = logging.getLogger(__name__)

Value = TypeVar("Value")

_LINGER_SECONDS = 1.0
_UNAVAILABLE, _FAILED = 254, 255  # above every signal's number

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


class Workers:
    """The processes that train together, seen from one of them.

    Engines subclass it to recognize their framework's errors about a worker that has died: those of
    the classes `_errors` whose messages match `_about_workers`, and may name others as `task:1`.

    Args:
        addresses: host:port of every worker, the chief's first; empty for a single one.
        index: this process's place among them.
        all_reduce: sums a list of small whole numbers, element by element, over all workers.
        board: without it, a worker that fails by itself leaves the others waiting.

    Attributes:
        count: number of processes that train together.
        is_chief: whether this process is the one that writes files.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = ()
    _about_workers: ClassVar[re.Pattern] = re.compile("")

    def __init__(
        self,
        addresses: Sequence[str] = (),
        index: int = 0,
        all_reduce: Callable[[list[float]], Sequence[float]] = list,
        board: Board | None = None,
    ):
        self._addresses = tuple(addresses)
        self.count = max(len(self._addresses), 1)
        self.index = index
        self.is_chief = index == 0
        self._all_reduce = all_reduce
        self._shared: Exception | None = None  # an error that all workers know of
        names = [self._name(number) for number in range(len(self._addresses))]
        self._failures = Failures(board, index, names) if board else None

    def describe(self) -> str:
        """Return which worker this is, out of how many; empty for a process that trains alone."""
        if not self._addresses:
            return ""
        return f"worker {self.index} of {self.count} ({self._addresses[self.index]})"

    def _name(self, number: int) -> str:
        return f"worker {number} ({self._addresses[number]})"

    def agree(self, number: int | None) -> int | None:
        """Return the largest of all workers' numbers, from 1 to 254; None if no worker has one."""
        if self.count == 1:
            return number
        return max(self._gather(number or 0)) or None

    @contextlib.contextmanager
    def synchronized(self) -> Iterator[None]:
        """Work that some workers do, or each does alone; afterwards all wait for all.

        No worker may wait for another one inside the block.

        Raises:
            InputError: If another worker failed; the worker that failed raises its own error.
            WorkerLost: If another worker cannot reach its files for now.
        """
        try:
            yield
        except Exception as error:
            # Others cannot be told if one of them has died.
            if self.count > 1 and not isinstance(error, (WorkerLost, *self._errors)):
                self._shared = error
                self._gather(_UNAVAILABLE if isinstance(error, StorageUnavailable) else _FAILED)
            raise
        if self.count == 1:
            return
        results = self._gather(0)
        for code in _UNAVAILABLE, _FAILED:
            if code in results:
                name = self._name(results.index(code))
                self._shared = failure_of(name, code == _UNAVAILABLE)
                raise self._shared

    def from_chief(self, work: Callable[[], Value]) -> Value:
        """Return what `work` returns, something for JSON, on the chief, which alone calls it."""
        if self.count == 1:
            return work()
        with self.synchronized():
            text = json.dumps(work()) if self.is_chief else ""
        return json.loads(self._from_one(text))

    def check_same(self, values: Mapping[str, Any]) -> None:
        """Compare what must be the same for all workers with what the chief has.

        Values, which JSON can represent, are by the argument that each belongs to, in backticks.

        Raises:
            InputError: The same for all, about the first difference.
        """
        if self.count == 1:
            return
        difference = _difference(json.loads(json.dumps(values)), self.from_chief(lambda: values))
        differs = self._gather(bool(difference))
        if not any(differs):
            return
        message = ""
        if difference and differs.index(1) == self.index:
            place, own, chief = difference
            message = (
                f"{': '.join(place)}={own} for {self.describe()}, but {chief} for {self._name(0)}; "
                "it must be the same for all"
            )
        self._shared = InputError(self._from_one(message))
        raise self._shared

    @contextlib.contextmanager
    def losses_reported(self) -> Iterator[None]:
        """Turn the framework's errors about a dead worker into one line.

        Raises:
            WorkerLost: If another worker has died or does not answer.
        """
        try:
            yield
        except Exception as error:
            if self.count > 1 and isinstance(error, self._errors):
                lost = self.lost_by(error)
                if lost is None:
                    self._report(error)
                    raise
                if self._failures and (failure := self._failures.received()):
                    raise failure from None
                names = [f"{n} ({self._addresses[n]})" for n in sorted(lost) if n < self.count]
                raise WorkerLost(
                    f"worker {', '.join(names) or '(another one)'} has ended or does not answer; "
                    "when all have ended, rerun the same command on all of them to resume from the "
                    "latest checkpoint"
                ) from None
            self._report(error)
            self.linger()
            raise
        except BaseException:
            self.linger()
            raise

    def _report(self, error: Exception) -> None:
        if self._failures and error is not self._shared and not isinstance(error, WorkerLost):
            self._failures.report(error)

    def linger(self) -> None:
        """Wait a moment before a process ends, so that the others receive what all agreed on."""
        if self.count > 1:
            time.sleep(_LINGER_SECONDS)

    def lost_by(self, error: Exception) -> set[int] | None:
        """Return the workers that an error says have died; None if it is not about workers."""
        if not isinstance(error, self._errors) or not self._about_workers.search(str(error)):
            return None
        return {int(number) for number in re.findall(r"task:(\d+)", str(error))} - {self.index}

    def _gather(self, own: int) -> list[int]:
        values = [0.0] * self.count
        values[self.index] = float(own)
        return [int(value) for value in self._all_reduce(values)]

    def _from_one(self, text: str) -> str:
        """Return to all the text of the only worker that has one."""
        content = text.encode()
        length = max(self._gather(len(content)))
        values = list(map(float, content or bytes(length)))
        return bytes(map(int, self._all_reduce(values))).decode()


# Endings of the options that may differ from worker to worker. Machines may have the same files in
# different places, so what is in them is compared instead (`Workers.check_same`).
MAY_DIFFER = ("_file", "_dir", "_checkpoint", "strategy", "coordinator_address", "process_id")


def shared_settings(options: Any) -> dict[str, str]:
    """Return the fields of a dataclass, as text, that must be the same for all workers."""
    return {
        f"`{name}`": str(value)
        for name, value in dataclasses.asdict(options).items()
        if not name.endswith(MAY_DIFFER)
    }


def _difference(own: Any, chiefs: Any, *place: str) -> tuple[tuple[str, ...], str, str] | None:
    """Return where two values differ first, and what is there; None if they are the same."""
    if isinstance(own, list) and isinstance(chiefs, list):
        if len(own) != len(chiefs):
            return (*place, "number"), str(len(own)), str(len(chiefs))
        own, chiefs = dict(enumerate(own)), dict(enumerate(chiefs))
    if not (isinstance(own, dict) and isinstance(chiefs, dict)):
        return None if own == chiefs else (place, shown(own, 200), shown(chiefs, 200))
    found = (_difference(own.get(n), chiefs.get(n), *place, str(n)) for n in {**chiefs, **own})
    return next(filter(None, found), None)
