"""Processes that train together: which one is the chief, what they agree on, how they fail.

A process that trains alone is its own chief, and none of these calls waits. All workers must make
the same calls in the same order, since each call waits for the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from albert_tf.errors import InputError, StorageUnavailable, WorkerLost

Value = TypeVar("Value")

_LINGER_SECONDS = 1.0
_UNAVAILABLE, _FAILED = 254, 255  # above every signal's number


class Workers:
    """The processes that train together, seen from one of them.

    Engines subclass it to recognize their framework's errors about a worker that has died: those of
    the classes `_errors` whose messages match `_about_workers`, and may name others as `task:1`.

    Args:
        addresses: host:port of every worker, the chief's first; empty for a process that trains
            alone.
        index: this process's place among them.
        all_reduce: sums a list of small whole numbers, element by element, over all workers; needed
            with several.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = ()
    _about_workers: ClassVar[re.Pattern] = re.compile("")

    def __init__(
        self,
        addresses: Sequence[str] = (),
        index: int = 0,
        all_reduce: Callable[[list[float]], Sequence[float]] | None = None,
    ):
        self._addresses = tuple(addresses)
        self._index = index
        self._all_reduce = all_reduce

    @property
    def count(self) -> int:
        """Number of processes that train together."""
        return max(len(self._addresses), 1)

    @property
    def index(self) -> int:
        """This process's place among them."""
        return self._index

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes files."""
        return self._index == 0

    def describe(self) -> str:
        """Return which worker this is, out of how many; empty for a process that trains alone."""
        if not self._addresses:
            return ""
        return f"worker {self._index} of {self.count} ({self._addresses[self._index]})"

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
                self._gather(_UNAVAILABLE if isinstance(error, StorageUnavailable) else _FAILED)
            raise
        if self.count == 1:
            return
        results = self._gather(0)
        if _UNAVAILABLE in results:
            number = results.index(_UNAVAILABLE)
            raise WorkerLost(
                f"worker {number} ({self._addresses[number]}) cannot reach its files; rerun the "
                "same command on all workers later"
            )
        if _FAILED in results:
            number = results.index(_FAILED)
            raise InputError(
                f"worker {number} ({self._addresses[number]}) failed with an error that it has "
                "printed; all workers stop"
            )

    def from_chief(self, work: Callable[[], Value]) -> Value:
        """Return what `work` returns on the chief, the only worker that calls it.

        Args:
            work: returns something that JSON can represent.
        """
        if self.count == 1:
            return work()
        with self.synchronized():
            text = json.dumps(work()).encode() if self.is_chief else b""
        length = max(self._gather(len(text)))
        values = list(map(float, text)) if self.is_chief else [0.0] * length
        return json.loads(bytes(map(int, self._sum(values))))

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
                    raise
                names = [f"{n} ({self._addresses[n]})" for n in sorted(lost) if n < self.count]
                raise WorkerLost(
                    f"worker {', '.join(names) or '(another one)'} has ended or does not answer; "
                    "when all have ended, rerun the same command on all of them to resume from the "
                    "latest checkpoint"
                ) from None
            self.linger()
            raise
        except BaseException:
            self.linger()
            raise

    def linger(self) -> None:
        """Wait a moment before a process ends, so that the others receive what all agreed on."""
        if self.count > 1:
            time.sleep(_LINGER_SECONDS)

    def lost_by(self, error: Exception) -> set[int] | None:
        """Return the workers that an error says have died; None if it is not about workers."""
        if not isinstance(error, self._errors) or not self._about_workers.search(str(error)):
            return None
        return {int(number) for number in re.findall(r"task:(\d+)", str(error))} - {self._index}

    def _gather(self, own: int) -> list[int]:
        """Return every worker's number, in their order."""
        values = [0.0] * self.count
        values[self._index] = float(own)
        return [int(value) for value in self._sum(values)]

    def _sum(self, values: list[float]) -> Sequence[Any]:
        if self._all_reduce is None:
            raise ValueError("several workers need `all_reduce`")
        return self._all_reduce(values)


def shared_settings(options: Any, may_differ: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the fields of options, as text, that must be the same for all workers.

    Args:
        options: a dataclass.
        may_differ: endings of fields that may differ, besides those of paths: machines may mount
            the same files in different places.
    """
    endings = ("_file", "_dir", "_checkpoint", "strategy", *may_differ)
    return {
        name: str(value)
        for name, value in dataclasses.asdict(options).items()
        if not name.endswith(endings)
    }
