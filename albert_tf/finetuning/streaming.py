"""Predictions for lines of standard input as they arrive, one line of results each."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TextIO

from albert_tf.errors import InputError
from albert_tf.files import open_file, replacing
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.logs import counted

logger = logging.getLogger(__name__)


def predict_stream(
    options: FineTuningOptions, predict: Callable[[Sequence[str], int], list[str]]
) -> None:
    """Predict the lines of standard input until it ends.

    A batch holds the lines that have arrived, at most `predict_batch_size`: a client that writes
    one line and waits gets its result; many lines are computed together.

    Args:
        options: of the program.
        predict: maps lines, and the number of the first, to a line of results each.

    Raises:
        InputError: If a line is invalid; the results of earlier lines are written.
    """
    number = 1
    with result_output(options.predict_output) as output:
        for lines in available_batches(sys.stdin, options.predict_batch_size):
            for line in predict(lines, number):
                output.write(f"{line}\n")
            output.flush()
            number += len(lines)
    logger.info("%s predicted", counted(number - 1, "line"))


@contextlib.contextmanager
def result_output(path: str) -> Iterator[IO[str]]:
    """Where results go: a file, which appears once complete, or the real standard output."""
    if path != STANDARD_STREAM:
        with replacing(path) as partial, open_file(partial, "w") as file:
            yield file
        return
    # `sys.stdout` is redirected and takes the messages.
    with open(os.dup(1), "w", encoding="utf-8", newline="\n") as file:
        yield file


_END = object()


def available_batches(stream: TextIO, size: int, errors: str = "strict") -> Iterator[list[str]]:
    """Yield lines of a UTF-8 stream: as many as are available, at most `size`.

    Args:
        stream: the stream.
        size: as above.
        errors: what becomes of bytes that are not UTF-8, as for `bytes.decode`.

    Raises:
        InputError: If `errors` is "strict" and there are such bytes; after the lines before them.
    """
    lines: queue.Queue = queue.Queue(maxsize=16 * size)
    descriptor = os.dup(stream.fileno())  # the caller may close its own while the thread reads

    def read() -> None:
        try:
            for line in _lines(descriptor, errors):
                lines.put(line)
        except InputError as error:
            lines.put(error)
        os.close(descriptor)
        lines.put(_END)

    # Only another thread can wait for input while this one learns whether there is more.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    batch: list[str] = []
    while True:
        try:
            line = lines.get(block=not batch)
        except queue.Empty:
            line = None
        if isinstance(line, str):
            batch.append(line)
        if batch and (not isinstance(line, str) or len(batch) == size):
            yield batch
            batch = []
        if isinstance(line, InputError):
            raise line
        if line is _END:
            return


def _lines(descriptor: int, errors: str) -> Iterator[str]:
    """Yield the lines of a file, each as soon as it arrives.

    Python's own readers hold a lock while they wait, which makes a program that exits meanwhile
    crash.
    """
    rest, number, is_ended = b"", 0, False
    while block := os.read(descriptor, 2**16):
        text = block[1:] if is_ended and block.startswith(b"\n") else block
        is_ended = block.endswith(b"\r")  # by it, whatever follows
        *whole, rest = (rest + text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        for line in whole:
            number += 1
            yield _decode(line, number, errors)
    if rest:
        yield _decode(rest, number + 1, errors)


def _decode(line: bytes, number: int, errors: str) -> str:
    try:
        return line.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise InputError(
            f"`predict_file`=-: line {number} of standard input is not UTF-8 ({error.reason}, byte "
            f"0x{line[error.start]:02x})"
        ) from None
