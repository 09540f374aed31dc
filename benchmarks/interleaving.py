"""Benchmarks implementations in interleaved rounds: medians, ratios, their ranges, peak memory.

Every implementation runs in a process of its own, which is paused while the others run.
"""

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
from collections.abc import Iterable, Iterator
from typing import TypeVar

from albert_tf.children import child
from albert_tf.errors import InputError
from benchmarks.implementations.workload import Workload

# What JAX and PyTorch print when a GPU has too little.
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "OutOfMemoryError", "out of memory")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum over rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        values = sorted(values)
        return cls(statistics.median(values), values[0], values[-1])

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


class ProcessFailed(InputError):
    """An implementation's process ended; `reason` is the line that names the error."""

    def __init__(self, implementation: "Implementation", stderr: str, code: int):
        end = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        lines = stderr.splitlines() or ["no error message"]
        # Some errors are followed by more lines, such as the arguments of a layer.
        errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        self.reason = f"{(errors or lines)[-1].strip()} ({end})"
        if any(words in stderr for words in _OUT_OF_MEMORY):
            self.reason = "out of memory"
        super().__init__(f"the process of {implementation.name} ended ({end}): {stderr[-2000:]}")


class Implementation:
    """A process that runs steps on request, and is paused in between.

    Args:
        name: a key of the table in `benchmarks.implementations`.

    Raises:
        ProcessFailed: If it ends before the first step.
    """

    def __init__(self, name: str, workload: Workload):
        self.name = name
        self.peak_memory = 0
        self.device: dict = {}
        # A file instead of a pipe, which nothing would read and which would block when full.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        started = child(
            [
                *(sys.executable, "-m", "benchmarks.implementations", name),
                json.dumps(dataclasses.asdict(workload)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr if "BENCH_STDERR" not in os.environ else None,
            text=True,
        )
        with contextlib.ExitStack() as stack:
            self._process = stack.enter_context(started)
            self._answer()
            self._ending = stack.pop_all()

    def __enter__(self) -> "Implementation":
        return self

    def __exit__(self, *error) -> None:
        self._process.kill()
        self._process.communicate()
        self._ending.close()
        self._stderr.close()

    def run(self, steps: int) -> float:
        """Run steps and return the seconds that they took.

        Raises:
            ProcessFailed: If the process ended.
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
            self._stderr.seek(0)
            stderr = self._stderr.read().decode(errors="replace").strip()
            self._stderr.close()
            raise ProcessFailed(self, stderr, self._process.returncode)
        self._process.send_signal(signal.SIGSTOP)
        return line.strip()


def in_rounds(items: Iterable[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Yield the number of a round and an item; every other round is in reverse order."""
    forward = list(items)
    for number in range(rounds):
        for item in reversed(forward) if number % 2 else forward:
            yield number, item
