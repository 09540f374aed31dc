"""Where the log messages of this project's modules go when a command runs."""

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator

from albert_tf.terminal import clear_line, show, wrapped

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return text with control characters, which a terminal would obey, as escapes: `\\x1b[2J`."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def counted(number: int | str, noun: str) -> str:
    """Return a number with a noun that has a regular plural: "1 layer", "1,200 layers".

    Numbers that are not whole are given as text: "0.5".
    """
    text = number if isinstance(number, str) else f"{number:,}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


class _ConsoleHandler(logging.Handler):
    """Prints plain messages to standard output, and warnings with a prefix to standard error.

    The streams are looked up for every message, so that `contextlib.redirect_stdout` applies.
    Errors of the streams (a closed pipe, a full disk) reach the caller, as those of `print` do.
    """

    def __init__(self, rename: Callable[[str], str]):
        super().__init__()
        self._rename = rename

    def emit(self, record: logging.LogRecord) -> None:
        message = printable(self._rename(self.format(record)))
        clear_line(sys.stderr)  # of a progress line, which its next update shows again
        if record.levelno < logging.WARNING:
            show(message, sys.stdout)
        else:
            show(wrapped(f"{record.levelname.lower()}: {message}", sys.stderr), sys.stderr)


@contextlib.contextmanager
def logs_on_console(
    *packages: str, propagate: bool = False, rename: Callable[[str], str] = str
) -> Iterator[None]:
    """Show what the loggers of some packages report, from level INFO upwards.

    Args:
        *packages: names of loggers; those of modules in these packages are children of theirs.
        propagate: whether messages also reach the handlers of the root logger.
        rename: puts other names of arguments, such as flags, into a message.
    """
    handler = _ConsoleHandler(rename)
    loggers = [logging.getLogger(package) for package in packages]
    previous = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = propagate
    try:
        yield
    finally:
        for logger, (level, propagated) in zip(loggers, previous, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagated
