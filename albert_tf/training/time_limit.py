"""The training time of a run, counted over restarts, and its limit."""

from __future__ import annotations

import math

from albert_tf.engines.workers import Workers
from albert_tf.training.evaluation import parse_row
from albert_tf.training.log import lines_up_to

# The metric that carries the time over a restart: the log is on the disk before a checkpoint is.
TRAINING_SECONDS = "training_seconds"


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
