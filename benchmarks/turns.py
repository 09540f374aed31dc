"""Contestants take turns on one machine: medians, ratios and their spread, peak memory."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable

from albert_tf.errors import InputError
from benchmarks.contestants.workload import Workload


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, least and greatest of repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = sorted(values)
        return cls(statistics.median(values), values[0], values[-1])

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


class Contestant:
    """A process that makes steps when it is told to, and is stopped while others do.

    Args:
        name: which one of `benchmarks.contestants`.
        workload: what it does.
    """

    def __init__(self, name: str, workload: Workload):
        self.name = name
        self.peak_memory = 0
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.contestants", name),
                json.dumps(dataclasses.asdict(workload)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if "BENCH_STDERR" not in os.environ else None,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *error) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, steps: int) -> float:
        """Seconds that `steps` steps take."""
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        self.peak_memory = answer["peak_memory"]
        return answer["seconds"]

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            said = (self._process.communicate()[1] or "").strip()
            raise InputError(f"the process of {self.name} ended: {said[-2000:]}")
        self._process.send_signal(signal.SIGSTOP)
        return line.strip()


def take_turns(ways: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """What each way returns, `repeats` times, one way after the other and again from the first."""
    values: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats):
        order = list(ways) if repeat % 2 == 0 else list(reversed(ways))
        for name in order:
            values[name].append(ways[name]())
    return values


def ratios(ours: list[float], theirs: list[float]) -> Spread:
    """How many times faster ours is, turn by turn; both are seconds of the same turns."""
    return Spread.of(b / a for a, b in zip(ours, theirs, strict=True))
