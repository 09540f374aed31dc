"""Predictions for lines of standard input as they arrive, one line of results each."""

import contextlib
import logging
import os
import select
import sys
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
    one line and waits gets its result; many lines are computed together. `predict` maps lines, and
    the number of the first, to a line of results each.

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


def available_batches(stream: TextIO, size: int, errors: str = "strict") -> Iterator[list[str]]:
    """Yield lines of a UTF-8 stream: as many as are available, at most `size`.

    Other bytes become what `errors` says, as for `bytes.decode`.

    Raises:
        InputError: If `errors` is "strict" and there are such bytes; after the lines before them.
    """
    batch: list[str] = []
    number = 0
    for line in _lines(stream.fileno()):
        if line is not None:
            number += 1
            try:
                batch.append(line.decode("utf-8", errors))
            except UnicodeDecodeError as error:
                if batch:
                    yield batch
                raise InputError(
                    f"`predict_file`=-: line {number} of standard input is not UTF-8 "
                    f"({error.reason}, byte 0x{line[error.start]:02x})"
                ) from None
        if batch and (line is None or len(batch) == size):
            yield batch
            batch = []


def _lines(descriptor: int) -> Iterator[bytes | None]:
    """Yield the lines of a file as they arrive, and None where the next one has yet to.

    Python's own readers keep lines in a buffer, which `select` does not look into.
    """
    rest, is_ended = b"", False
    while block := os.read(descriptor, 2**16):
        text = block[1:] if is_ended and block.startswith(b"\n") else block
        is_ended = block.endswith(b"\r")  # by it, whatever follows
        *whole, rest = (rest + text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        yield from whole
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
    if rest:
        yield rest
    yield None
