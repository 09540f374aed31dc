"""Lines that show the progress of long work."""

import sys
import time
from typing import TextIO

from albert_tf.terminal import clear_line, columns, show


def duration(seconds: float) -> str:
    """Format seconds: 63 -> "1:03", 4000 -> "1:06:40"."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class ProgressLine:
    """Rewrites one line on a terminal; in a log, prints one line per minute.

    Args:
        stream: output stream; standard error by default.
        log_seconds: seconds between lines if the stream is not a terminal.
    """

    def __init__(self, stream: TextIO | None = None, log_seconds: float = 60.0):
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._seconds = 0.2 if self._live else log_seconds
        self._last = time.monotonic() if not self._live else float("-inf")
        self._fields: tuple[str, ...] = ()

    @property
    def due(self) -> bool:
        """Whether `update` would show its fields now."""
        return time.monotonic() - self._last >= self._seconds

    def update(self, *fields: str) -> None:
        """Show `fields`, or keep them for later if others were shown only a moment ago.

        The most important come first: a terminal shows as many as fit into its line.
        """
        self._fields = fields
        if self.due:
            self._show()

    def clear(self) -> None:
        """Remove the line from a terminal."""
        clear_line(self._stream)
        self._fields = ()

    def close(self) -> None:
        """Show the last fields if they were not shown yet, and end the line."""
        if self._fields:
            self._show()
        if self._live:
            show("", self._stream)

    def _show(self) -> None:
        clear_line(self._stream)
        fields, end = list(self._fields), "" if self._live else "\n"
        if self._live:
            width = columns(self._stream) - 1  # some terminals break a line in the last column
            while len(fields) > 1 and len("  ".join(fields)) > width:
                fields.pop()
            fields[0] = fields[0][:width]
        show("  ".join(fields), self._stream, end)
        self._last = time.monotonic()
        self._fields = ()


def _amount(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


class ThroughputLine:
    """A progress line that shows how much is done and how fast, if it takes over a second.

        with ThroughputLine("tokenized", "MB", total=12.5) as progress:
            progress.update(1.2)        # in total, in MB

    Args:
        verb: what happens, such as "read".
        unit: unit of the amounts, such as "MB"; whole numbers are shown without decimals.
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
        if not self._line.due or now < self._start + 1:
            return
        of = f" of {_amount(self._total)}" if self._total else ""
        fields = [f"{self._verb} {_amount(done)}{of} {self._unit}"]
        if self._total and done > first_done:
            seconds = (now - first_time) / (done - first_done) * (self._total - done)
            fields.append(f"{duration(seconds)} left")
        fields.append(f"{(done - self._before) / (now - self._start):,.1f} {self._unit}/s")
        self._line.update(*fields, *([details] if details else []))

    def __enter__(self) -> "ThroughputLine":
        return self

    def __exit__(self, *exception: object) -> None:
        self._line.clear()  # a summary follows
