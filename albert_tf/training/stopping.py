"""When training stops: SIGTERM (preemption) and Ctrl-C, and the limit of its time."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from typing import Any

from albert_tf.engines.workers import Workers
from albert_tf.training.log import lines_up_to, parse_row

# The metric that carries the time over a restart: the log is on the disk before a checkpoint is.
TRAINING_SECONDS = "training_seconds"

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Records SIGTERM and Ctrl-C within a `with` block, instead of ending the process.

    The caller checks `received` where it can stop. A second signal ends the process at once, with
    the exit code that shells use for it (143 or 130). Signals that are ignored, as Ctrl-C is in
    background jobs, stay ignored. Outside of the main thread, where Python handles no signals,
    nothing happens. Earlier handlers are restored at the end of the block.

    Attributes:
        received: number of the first signal; None before it.
    """

    def __init__(self):
        self.received: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        # Python's handlers run between two Python instructions, which a call of the engine may
        # delay by minutes; the file descriptor is written to when the signal arrives.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="stop signals", daemon=True)
        self._watcher.start()
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._handlers[number] = signal.getsignal(number)
                signal.signal(number, self._note)
        return self

    def __exit__(self, *error) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write)
        self._watcher.join()
        os.close(self._read)

    def _note(self, number: int, frame) -> None:
        if self.received is None:
            self.received = number

    def _watch(self) -> None:
        first = None
        while byte := os.read(self._read, 1):
            number = byte[0]
            if number not in self._handlers:
                continue  # another signal with a Python handler
            if first is not None:
                os._exit(128 + number)
            first = number
            name = signal.Signals(number).name
            print(
                f"\n{name}: finishing the current steps and saving; repeat to end at once",
                file=sys.stderr,
                flush=True,
            )


class TimeLimit:
    """Counts the time that a run spends on training steps, and ends it after so many minutes.

    Waiting for data counts as part of a step. Start-up, evaluation and saving do not count, nor
    does the first step of each process, in which the engine compiles.

    The clock of the chief decides. All workers know its times, and so take the same decisions.

    Args:
        workers: the processes that train together.
        minutes: limit of the training time; 0 for none, and then nothing is counted.
        folder: of training, whose `metrics.jsonl` has the time spent before.
        step: from which training resumes; time spent on later steps, which were not saved, is
            left out.
    """

    def __init__(self, workers: Workers, minutes: float, folder: str, step: int):
        self._workers = workers
        self._minutes = minutes
        # As a record of the log has it, so that a run that has ended is over after a restart.
        self._limit = float(f"{60 * minutes:.7g}") or math.inf
        self._before = workers.from_chief(lambda: _recorded(folder, step)) if minutes else 0.0
        self._seconds = 0.0  # of this process
        self._steps = 0
        self._compiled = False

    def steps(self, count: int) -> int:
        """How many of the next `count` steps are taken at once: those that probably fit.

        The first step, in which the engine compiles, and the second, which shows how long a step
        takes, are taken alone.
        """
        if not self._minutes:
            return count
        if not self._steps:
            return 1
        if self.seconds_left * self._steps >= count * self._seconds:
            return count
        return max(1, math.ceil(self.seconds_left * self._steps / self._seconds))

    def add(self, count: int, seconds: float) -> None:
        """Counts `count` steps that took so many seconds."""
        if not self._minutes:
            return
        if self._compiled:
            self._seconds += self._workers.from_chief(lambda: seconds)
            self._steps += count
        self._compiled = True

    @property
    def seconds_left(self) -> float:
        """Training time until the limit; infinite without one."""
        return self._limit - self._before - self._seconds

    @property
    def metrics(self) -> dict[str, float]:
        """`training_seconds`, the training time so far; nothing without a limit."""
        return {TRAINING_SECONDS: self._before + self._seconds} if self._minutes else {}

    def stop_reason(self, step: int) -> str | None:
        """Why training stops at `step`; None if there is time left."""
        if self.seconds_left > 0:
            return None
        minutes = (self._before + self._seconds) / 60
        return (
            f"stopping after step {step}: trained for {minutes:.4g} minutes, of which "
            f"{self._minutes:g} were allowed"
        )


def _recorded(folder: str, step: int) -> float:
    """The training time up to a step, from the last record that has it."""
    for line in reversed(lines_up_to(folder, step)):
        row = parse_row(line, folder)
        if TRAINING_SECONDS in row:
            return float(row[TRAINING_SECONDS])
    return 0.0
