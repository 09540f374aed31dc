"""The one line that tells how far long work has come."""

from __future__ import annotations

import sys
import time
from typing import TextIO


def duration(seconds: float) -> str:
    """63 -> "1:03", 4000 -> "1:06:40"."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class ProgressLine:
    """Rewrites one line on a terminal; in a log, prints a line a minute.

    Args:
        stream: where to; standard error by default.
        log_seconds: seconds between lines where the stream is not a terminal.
    """

    def __init__(self, stream: TextIO | None = None, log_seconds: float = 60.0):
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._seconds = 0.2 if self._live else log_seconds
        self._last = time.monotonic() if not self._live else float("-inf")
        self._text: str | None = None

    @property
    def due(self) -> bool:
        """Whether a text would be shown now, rather than kept for later."""
        return time.monotonic() - self._last >= self._seconds

    def update(self, text: str) -> None:
        """Shows `text`, unless the last one was shown a moment ago."""
        self._text = text
        if self.due:
            self._show()

    def clear(self) -> None:
        """Takes the line away, where it can be."""
        if self._live:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
        self._text = None

    def close(self) -> None:
        """Shows the last text, if it is not shown yet, and ends the line."""
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
