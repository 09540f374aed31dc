"""Reads the records of TFRecord files, and checks every length and checksum; no TensorFlow."""

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.example_parser import ExampleParser, WrongLengthError
from albert_tf.input.features import Feature
from albert_tf.input.record_index import RecordIndex, masked_crc

# Blocks that are read at the same time, since remote storage takes its time to answer.
_READS = 32
# Files whose first records are checked before a run starts.
_CHECKED_FILES = 64
_CHECKED_RECORDS = 32
_EXAMPLES_AT_ONCE = 1024
# Bytes of a record before and after its content.
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_FRAME_BYTES = _HEADER_BYTES + _FOOTER_BYTES


class _DamagedRecordError(Exception):
    """A record has a wrong checksum or is truncated; its number in what is read, and why."""

    def __init__(self, number: int, reason: str):
        super().__init__(number, reason)
        self.number, self.reason = number, reason


def read_records(index: RecordIndex, numbers: np.ndarray) -> list[bytes]:
    """Read the records with some `numbers` in all files, int64 `[records]`, in any order.

    Each block is read at most once.

    Raises:
        InputError: If a record in one of their blocks is damaged.
        OSError: If a file cannot be read.
    """
    first = index.first
    block_of = np.searchsorted(first, numbers, side="right") - 1
    blocks, block = np.unique(block_of, return_inverse=True)
    if len(blocks) <= 1:
        contents = [read_block(index, number) for number in blocks.tolist()]
    else:
        with ThreadPoolExecutor(min(_READS, len(blocks)), "read-records") as threads:
            contents = list(threads.map(lambda number: read_block(index, number), blocks.tolist()))
    offsets = (numbers - first[block_of]).tolist()
    return [contents[i][offset] for i, offset in zip(block.tolist(), offsets, strict=True)]


def read_block(index: RecordIndex, block: int) -> list[bytes]:
    """Read all records of a block.

    Raises:
        InputError: If a record is damaged.
        OSError: If the file cannot be read.
    """
    path, size = index.files[index.file[block]], int(index.bytes[block])
    offset = int(index.offset[block])
    content = files.read_bytes(path, offset, offset + size)
    count = int(index.records[block])
    try:
        records = list(itertools.islice(_records(io.BytesIO(content), len(content)), count))
        if len(records) < count:
            raise _DamagedRecordError(len(records), "it is truncated")
    except _DamagedRecordError as error:
        name = index.name_of(int(index.first[block]) + error.number)
        raise InputError(f"{name} is damaged: {error.reason}") from None
    return records


def iter_records(path: str) -> Iterator[bytes]:
    """Yield the records of a file, in order.

    Raises:
        InputError: If the file does not exist, or a record is damaged.
        OSError: If the file cannot be read.
    """
    if not files.exists(path):
        raise InputError(f"{path}: no such file")
    try:
        with files.open_file(path, "rb") as file:
            yield from _records(file, files.size(path))
    except _DamagedRecordError as error:
        hint = "" if error.number else "; is it a TFRecord file?"
        raise InputError(
            f"{path}: example {error.number} is damaged: {error.reason}{hint}"
        ) from None


def iter_examples(
    path: str, features: Mapping[str, Feature], batch_size: int = _EXAMPLES_AT_ONCE
) -> Iterator[dict[str, np.ndarray]]:
    """Yield some features of the examples of a file in batches, in order; the last may be smaller.

    Yields:
        Arrays `[batch, *shape]` by feature name, int64 or float32.

    Raises:
        InputError: If the file does not exist, a record is damaged, or an example has other
            features, lengths or values.
        OSError: If the file cannot be read.
    """
    parse, records, first = ExampleParser(features, np.int64), iter_records(path), 0

    def name_of(row: int) -> str:
        return f"{path}: example {first + row}"

    while batch := list(itertools.islice(records, batch_size)):
        yield parse(batch, name_of)
        first += len(batch)


def check_files(paths: Sequence[str], features: Mapping[str, Feature]) -> None:
    """Read the first records of files, so that a mismatch shows before training starts.

    `features`, with `input_ids`, are what an example contains.

    Raises:
        InputError: If a file is damaged, or its examples have other features or lengths than
            expected or ids beyond the vocabulary.
    """
    unlimited = {name: feature._replace(limit=None) for name, feature in features.items()}
    limit = features["input_ids"].limit
    for path in paths[:_CHECKED_FILES]:
        examples = iter_examples(path, unlimited, batch_size=1)
        try:
            for example in itertools.islice(examples, _CHECKED_RECORDS):
                largest = int(example["input_ids"].max(initial=0))
                if limit is not None and largest >= limit:
                    break
            else:
                continue
        except WrongLengthError as error:
            raise InputError(f"{path}: {_length_mismatch(error)}") from None
        except (InputError, OSError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise InputError(f"{path}: not a readable TFRecord of examples ({reason})") from None
        raise InputError(
            f"{path}: token id {largest} is beyond the vocab_size {limit} of "
            "`albert_config_file`; was it made with another vocabulary?"
        )


def _length_mismatch(error: WrongLengthError) -> str:
    argument = {
        "masked_lm_positions": "max_predictions_per_seq",
        "input_ids": "max_seq_length",
    }.get(error.feature)
    hint = f"; `{argument}` must be {error.length}" if argument and error.length else ""
    if error.feature.startswith("masked_lm") and not error.length:
        hint = "; files made with --masking=dynamic need their manifest next to them"
    if error.feature == "input_mask" and not error.length:
        hint = "; files made with --pack_rows need their manifest next to them"
    return (
        f"examples have {error.length or 'no'} values of {error.feature}, {error.expected} are "
        f"expected{hint}"
    )


def _records(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the records up to the end of a file of `size` bytes."""
    position = number = 0
    while position < size:
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            raise _DamagedRecordError(number, "it is truncated")
        if masked_crc(header[:8]) != header[8:]:
            raise _DamagedRecordError(number, "its checksum is wrong")
        length = int.from_bytes(header[:8], "little")
        # Before any memory is taken for it.
        if length > size - position - _FRAME_BYTES:
            raise _DamagedRecordError(number, "it is truncated")
        content = file.read(length + _FOOTER_BYTES)
        if len(content) < length + _FOOTER_BYTES:
            raise _DamagedRecordError(number, "it is truncated")
        record = content[:length]
        if masked_crc(record) != content[length:]:
            raise _DamagedRecordError(number, "its checksum is wrong")
        yield record
        position += _FRAME_BYTES + length
        number += 1
