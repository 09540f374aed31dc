"""Predictions of texts as they come: lines of standard input, a line of results for each."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from albert_tf.errors import InputError
from albert_tf.files import open_file, replacing
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.finetuning.finetuning_run import Work


def predict_lines(work: Work) -> None:
    """Predicts the lines of standard input until its end.

    A batch is what has come, up to `--predict_batch_size` lines: whoever writes a line and waits
    gets its result, and whoever writes many has them computed together.

    Args:
        work: with the weights to use.

    Raises:
        InputError: a line is not what it should be; results of those before it are written.
    """
    number = 1
    with _output(work.options.predict_output) as output:
        for lines in _batches_as_they_come(sys.stdin, work.options.predict_batch_size):
            examples = work.problem.read_lines(lines, number)
            outputs = work.outputs_of(examples, work.options.predict_batch_size)
            for line in work.problem.result_lines(examples, outputs):
                output.write(f"{line}\n")
            output.flush()
            number += len(lines)
    print(f"{number - 1} lines predicted")


@contextlib.contextmanager
def _output(path: str) -> Iterator[TextIO]:
    """Where results go: a file, whole at the end, or the program's own standard output."""
    if path != STANDARD_STREAM:
        with replacing(path) as partial, open_file(partial, "w") as file:
            yield file
        return
    # What `sys.stdout` is at the moment takes what is told of the work.
    with open(os.dup(1), "w", encoding="utf-8", newline="\n") as file:
        yield file


_END = object()


def _batches_as_they_come(stream: TextIO, size: int) -> Iterator[list[str]]:
    """Lines of a UTF-8 stream, without their ends: as many as are there, `size` at most."""
    lines: queue.Queue = queue.Queue(maxsize=16 * size)

    def read() -> None:
        try:
            for line in _lines(stream.fileno()):
                lines.put(line)
        except InputError as error:
            lines.put(error)
        lines.put(_END)

    # A thread, since only so can it be known whether there is more without waiting for it.
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


def _lines(descriptor: int) -> Iterator[str]:
    """The lines of a file, each as soon as it is there.

    Python's own readers hold a lock while they wait, which a program that ends meanwhile trips
    over.
    """
    rest, number = b"", 0
    while block := os.read(descriptor, 2**16):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            number += 1
            yield _decode(line, number)
    if rest:
        yield _decode(rest, number + 1)


def _decode(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"--predict_file=-: line {number} of standard input is not UTF-8 ({error.reason}, byte "
            f"0x{line[error.start]:02x})"
        ) from None
