"""A line that shows the progress of long work."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from albert_tf.terminal import clear_line, columns


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

        Args:
            *fields: texts, the most important first. A terminal shows as many as fit into its line.
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
            print(file=self._stream)

    def _show(self) -> None:
        clear_line(self._stream)
        fields, end = list(self._fields), "" if self._live else "\n"
        if self._live:
            width = (
                columns(self._stream) - 1
            )  # some terminals begin a new line after the last column
            while len(fields) > 1 and len("  ".join(fields)) > width:
                fields.pop()
            fields[0] = fields[0][:width]
        print("  ".join(fields), end=end, file=self._stream, flush=True)
        self._last = time.monotonic()
        self._fields = ()
