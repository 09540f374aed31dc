"""Batches that steps take inside of their graph, and what TensorFlow's errors mean."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, tensorflow_reason
from albert_tf.input.record_index import RecordIndex
from albert_tf.input.record_reader import read_block

# What TensorFlow raises for a damaged TFRecord file, among other things.
_DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
)
# The messages of `records` and of TensorFlow's reader of records.
_WRONG_VALUE = re.compile(r"assertion failed: \[(.*)\]")
_DAMAGED_RECORD = re.compile(r"(?:corrupted|truncated) record at (\d+)")


class BatchIterator(Iterator):
    """Batches of a distributed dataset; training steps take them inside of their graph.

    Attributes:
        distributed: the iterator of the dataset.
        index: of the files that are read; None for examples in memory.
        element_spec: shapes and dtypes of the batches; by default those that the iterator names.
    """

    def __init__(
        self, distributed: Iterator, index: RecordIndex | None = None, element_spec: Any = None
    ):
        self.distributed, self.index = distributed, index
        self.element_spec = element_spec or getattr(distributed, "element_spec", None)

    def __next__(self) -> Any:
        try:
            return next(self.distributed)
        except _DATA_ERRORS as error:
            raise _reading_error(error, self.index) from None


@contextlib.contextmanager
def errors_in_one_line(kind: str, index: RecordIndex | None = None) -> Iterator[None]:
    """Report errors of a step, whose own messages have many lines.

    Args:
        kind: what the step is for.
        index: of the files that the step reads.

    Raises:
        InputError: If a batch cannot be read, the memory does not suffice, or the step fails.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(
            f"out of memory in {kind} ({tensorflow_reason(error)}); a smaller batch needs less "
            "memory, and in pretraining, so do `micro_batch_size` and `remat`"
        ) from None
    except (*_DATA_ERRORS, tf.errors.UnimplementedError) as error:
        # Reading is part of the graph of a training step.
        if "IteratorGetNext" in str(error):
            raise _reading_error(error, index) from None
        raise InputError(f"the {kind} step failed: {tensorflow_reason(error)}") from None


def _reading_error(error: tf.errors.OpError, index: RecordIndex | None) -> InputError:
    """Return what to say of an error while a batch was read."""
    reason = tensorflow_reason(error)
    if wrong := _WRONG_VALUE.search(reason):
        return InputError(wrong[1])
    if index and (damaged := _DAMAGED_RECORD.search(reason)):
        position = int(damaged[1])
        is_inside = (index.offset <= position) & (position < index.offset + index.bytes)
        for block in np.flatnonzero(is_inside).tolist():
            try:
                read_block(index, block)
            except InputError as found:
                return found  # names the record
            except OSError:
                pass
    return InputError(f"the TFRecords cannot be read: {reason}")
