"""A line that shows the progress of long work."""

from __future__ import annotations

import sys
import time
from typing import TextIO


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
        self._text: str | None = None

    @property
    def due(self) -> bool:
        """Whether `update` would show a text now."""
        return time.monotonic() - self._last >= self._seconds

    def update(self, text: str) -> None:
        """Show `text`, or keep it for later if the last one was shown only a moment ago."""
        self._text = text
        if self.due:
            self._show()

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._live:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
        self._text = None

    def close(self) -> None:
        """Show the last text if it was not shown yet, and end the line."""
        if self._text is not None:
            self._show()
        if self._live:
            print(file=self._stream)

    def _show(self) -> None:
        if self._live:
            print(f"\r\x1b[K{self._text}", end="", file=self._stream, flush=True)
        else:
            print(self._text, file=self._stream, flush=True)
        self._last = time.monotonic()
        self._text = None
