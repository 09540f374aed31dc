"""What commands do with a terminal, and with a stream that nothing reads any more."""

import contextlib
import errno
import itertools
import os
import select
import shutil
import signal
import sys
import textwrap
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
