"""What commands do with a terminal, and with a stream that nothing reads any more; progress."""

import contextlib
import errno
import itertools
import os
import select
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from typing import TextIO


def show(text: str, stream: TextIO, end: str = "\n") -> None:
    """Print text at once; from the moment that a terminal is closed, to nowhere.

    Errors of other streams (a closed pipe, a full disk) reach the caller.
    """
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError as error:
        if error.errno != errno.EIO or not is_unread(stream):
            raise
        _discard([stream])


def program_name() -> str:
    """Return the name under which this process was started: `albert-squad`, `analysis`."""
    return sys.argv[0].removesuffix("/__main__.py").rsplit("/", 1)[-1]


def clear_line(stream: TextIO) -> None:
    """Remove the line that the cursor is in, if the stream is a terminal."""
    if stream.isatty():
        show("\r\x1b[K", stream, end="")


def columns(stream: TextIO) -> int:
    """Return the width of the terminal: COLUMNS, or that of standard output or the stream."""
    fallback = (80, 24)
    with contextlib.suppress(OSError):
        fallback = os.get_terminal_size(stream.fileno())
    return shutil.get_terminal_size(fallback).columns or 80


def wrapped(text: str, stream: TextIO) -> str:
    """Return text with line breaks between words, where a terminal would break within them."""
    if not stream.isatty():
        return text
    width = columns(stream) - 1  # some terminals begin a new line after the last column
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )


def two_columns(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Format flags, or other names, with what they mean."""
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - 29, break_long_words=False, break_on_hyphens=False)
        if len(name) > 25:
            lines.append(f"  {name}")
            name = ""
        pairs = itertools.zip_longest([name], wrapped or [""], fillvalue="")
        lines += [f"  {left:<26} {right}" for left, right in pairs]
    return "\n".join(lines)


def is_unread(stream: TextIO) -> bool:
    """Return whether a stream is a closed terminal or a pipe without reader (`command | head`)."""
    poll = select.poll()
    try:
        poll.register(stream, 0)
    except (OSError, ValueError):  # no file of the system, or closed
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _discard(streams: Iterable[TextIO]) -> None:
    """Send to nowhere what is written to streams, and what is still in their buffers."""
    with open(os.devnull, "w") as nowhere:
        for stream in streams:
            os.dup2(nowhere.fileno(), stream.fileno())


def _open_standard_streams() -> None:
    """Give a process whose parent has closed standard streams (`>&-`) some that lead nowhere.

    Otherwise, files that it opens would get their numbers, and what libraries print.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode))  # noqa: SIM115


@contextlib.contextmanager
def ending_quietly() -> Iterator[None]:
    """End the process without a message if nothing reads what it prints, as Unix programs do.

    Its exit code is then that of a process that SIGPIPE has ended. The signal itself stays ignored:
    it would also end training whose connection to a server breaks.
    """
    _open_standard_streams()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        unread = [stream for stream in (sys.stdout, sys.stderr) if is_unread(stream)]
        if not unread:
            raise
        _discard(unread)
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:  # such as a full disk; those of the work itself do not come here
        _discard([sys.stdout])
        sys.exit(f"{program_name()}: error: standard output: {error.strerror}")


def duration(seconds: float) -> str:
    """Format seconds: 63 -> "1:03", 4000 -> "1:06:40"."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class ProgressLine:
    """Rewrites one line on a terminal; in a log, prints one line per minute.

    By default, on standard error.
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
        stream: as of `ProgressLine`.
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
