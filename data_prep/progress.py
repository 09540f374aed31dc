"""One line of progress: rewritten in place on a terminal, once a minute in a log."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Shows how far a long step is.

        with Progress("tokenised", "MB", total=12.5) as progress:
            progress.update(1.2)        # so far, in the unit

    Args:
        verb: what is happening, such as "read".
        unit: what is counted.
        total: how much there will be, where that is known: gives the time left.
        stream: where to write.
    """

    def __init__(
        self, verb: str, unit: str, total: float | None = None, stream: TextIO | None = None
    ):
        self._verb, self._unit, self._total = verb, unit, total
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._interval = 0.2 if self._is_terminal else 60.0
        self._start = self._shown = time.monotonic()
        self._width = 0

    def update(self, done: float) -> None:
        """Reports how much is done; costs next to nothing between two lines."""
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        rate = done / (now - self._start)
        line = f"{self._verb} {done:,.1f}"
        if self._total:
            line += f" of {self._total:,.1f}"
        line += f" {self._unit}, {rate:,.1f} {self._unit}/s"
        if self._total and rate:
            minutes, seconds = divmod(round(max(0.0, self._total - done) / rate), 60)
            line += f", {minutes}:{seconds:02d} left"
        self._show(line)

    def _show(self, line: str) -> None:
        end = "" if self._is_terminal else "\n"
        start = "\r" if self._is_terminal else ""
        self._stream.write(start + line.ljust(self._width) + end)
        self._stream.flush()
        self._width = len(line) if self._is_terminal else 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception) -> None:
        if self._width:  # the summary that follows takes the place of the line
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
