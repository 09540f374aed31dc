"""Processes that train together: which one is the chief, what they agree on, how they fail.

A process that trains alone is its own chief, and none of these calls waits. All workers must make
the same calls in the same order, since each call waits for the others.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from albert_tf.errors import InputError, StorageUnavailable, WorkerLost

Value = TypeVar("Value")

_LINGER_SECONDS = 1.0
_UNAVAILABLE, _FAILED = 254, 255  # above every signal's number


class Workers:
    """The processes that train together, seen from one of them.

    Engines subclass it to recognize their framework's errors about a worker that has died.

    Args:
        addresses: host:port of every worker, the chief's first; empty for a process that trains
            alone.
        index: this process's place among them.
        all_reduce: sums a list of small whole numbers, element by element, over all workers; needed
            with several.
    """

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
        """Which worker this is, out of how many; empty for a process that trains alone."""
        if not self._addresses:
            return ""
        return f"worker {self._index} of {self.count} ({self._addresses[self._index]})"

    def agree(self, number: int | None) -> int | None:
        """The largest of all workers' numbers, from 1 to 254; None if no worker has one."""
        if self.count == 1:
            return number
        return max(self._gather(number or 0)) or None

    @contextlib.contextmanager
    def synchronized(self) -> Iterator[None]:
        """Work that some workers do, or each does alone; afterwards all wait for all.

        No worker may wait for another one inside the block.

        Raises:
            InputError: another worker failed; the worker that failed raises its own error.
            WorkerLost: another worker cannot reach its files for now.
        """
        try:
            yield
        except Exception as error:
            if self.count > 1 and not isinstance(error, WorkerLost) and not self.is_loss(error):
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
        """What `work` returns on the chief, the only worker that calls it.

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
        """Turns the framework's errors about a dead worker into one line.

        Raises:
            WorkerLost: another worker has died or does not answer.
        """
        try:
            yield
        except Exception as error:
            if self.count > 1 and self.is_loss(error):
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
        """Waits a moment before a process ends, so that the others receive what all agreed on."""
        if self.count > 1:
            time.sleep(_LINGER_SECONDS)

    def is_loss(self, error: Exception) -> bool:
        """Whether an error may be what the framework raises when a worker has died."""
        return False

    def lost_by(self, error: Exception) -> set[int] | None:
        """The other workers that such an error names, or None if it is not about workers."""
        return None

    def _gather(self, own: int) -> list[int]:
        """Every worker's number, in their order."""
        values = [0.0] * self.count
        values[self._index] = float(own)
        return [int(value) for value in self._sum(values)]

    def _sum(self, values: list[float]) -> Sequence[Any]:
        if self._all_reduce is None:
            raise ValueError("several workers need `all_reduce`")
        return self._all_reduce(values)


def compare_replicas(
    names: Sequence[str], checksums: np.ndarray, step: int, workers: Workers, framework: str
) -> None:
    """Compares the variables of all replicas with those of the first.

    Args:
        names: of the variables.
        checksums: integers `[replicas, variables]`, the replicas of all workers in order.
        step: number of updates made so far.
        workers: the processes that the replicas belong to.
        framework: what computes, for the error.

    Raises:
        InputError: a replica has other values.
    """
    different = checksums != checksums[0]
    if not different.any():
        return
    replica = int(np.argmax(different.any(axis=1)))
    changed = [names[int(number)] for number in np.flatnonzero(different[replica])]
    count = len(checksums)
    where = f" (worker {replica * workers.count // count})" if workers.count > 1 else ""
    raise InputError(
        f"after step {step}, replica {replica} of {count}{where} has other values than replica 0 "
        f"in {len(changed)} of {len(names)} variables ({', '.join(changed[:3])}, ...): nothing "
        "more is saved; resume from the latest checkpoint, on machines and devices of one kind, "
        f"with one version of {framework}"
    )
