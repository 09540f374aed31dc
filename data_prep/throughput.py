"""The progress of a long step of data preparation: amount done, rate and time left."""

from __future__ import annotations

import time
from typing import TextIO

from albert_tf.progress import ProgressLine, duration


class ThroughputLine:
    """A progress line that shows how much is done and how fast.

        with ThroughputLine("tokenized", "MB", total=12.5) as progress:
            progress.update(1.2)        # in total, in MB

    Args:
        verb: what happens, such as "read".
        unit: unit of the amounts, such as "MB".
        total: the total amount, if known; needed to estimate the time left.
        before: amount that an earlier, interrupted run has done.
        stream: where to write; standard error by default.
    """

    def __init__(
        self,
        verb: str,
        unit: str,
        total: float | None = None,
        before: float = 0.0,
        stream: TextIO | None = None,
    ):
        self._verb, self._unit, self._total, self._before = verb, unit, total, before
        self._line = ProgressLine(stream)
        self._start = time.monotonic()
        self._first: tuple[float, float] | None = None  # when, and the amount done

    def update(self, done: float, details: str = "") -> None:
        """Report the amount done so far; cheap while no line is due."""
        now = time.monotonic()
        # The time before it includes the start of the workers, and compiling in each.
        first_time, first_done = self._first = self._first or (now, done)
        if not self._line.due:
            return
        of = f" of {self._total:,.1f}" if self._total else ""
        fields = [f"{self._verb} {done:,.1f}{of} {self._unit}"]
        if self._total and done > first_done:
            seconds = (now - first_time) / (done - first_done) * (self._total - done)
            fields.append(f"{duration(seconds)} left")
        fields.append(f"{(done - self._before) / (now - self._start):,.1f} {self._unit}/s")
        self._line.update(*fields, *([details] if details else []))

    def __enter__(self) -> ThroughputLine:
        return self

    def __exit__(self, *exception: object) -> None:
        self._line.clear()  # a summary follows
