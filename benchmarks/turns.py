"""Contestants take turns on one machine: medians, ratios and their spread, peak memory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
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


class Died(InputError):
    """A contestant's process ended.

    Attributes:
        contestant: whose process it was.
        said: the end of what it had printed to standard error.
        reason: the line of that which says why.
    """

    def __init__(self, contestant: Contestant, said: str, code: int):
        end = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        self.contestant = contestant
        self.said = said[-2000:]
        lines = said.splitlines() or ["it said nothing"]
        # Some errors go on for lines, with the arguments of a layer and the like.
        errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        self.reason = f"{(errors or lines)[-1].strip()} ({end})"
        super().__init__(f"the process of {contestant.name} ended ({end}): {self.said}")


class Contestant:
    """A process that makes steps when it is told to, and is stopped while others do.

    Args:
        name: which one of `benchmarks.contestants`.
        workload: what it does.

    Raises:
        Died: it did not get as far as the first step.
    """

    def __init__(self, name: str, workload: Workload):
        self.name = name
        self.peak_memory = 0
        self.device: dict = {}
        # A file and not a pipe: nobody reads along, and a full pipe would hold the process up.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.contestants", name),
                json.dumps(dataclasses.asdict(workload)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said if "BENCH_STDERR" not in os.environ else None,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *error) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def run(self, steps: int) -> float:
        """Seconds that `steps` steps take.

        Raises:
            Died: the process ended, now or since the last turn.
        """
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # it has ended, and so has its output
            self._process.stdin.write(f"{steps}\n")
            self._process.stdin.flush()
        answer = json.loads(self._answer())
        self.peak_memory, self.device = answer["peak_memory"], answer["device"]
        return answer["seconds"]

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()
            raise Died(self, said, self._process.returncode)
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
