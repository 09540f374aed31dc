"""Where the records of TFRecord files are, so that reading can begin at any of them.

A block is `BLOCK` consecutive records of a file, fewer at its end. The index of a file is the
position of each of its blocks. Data preparation writes the indexes of its files next to their
manifest. The index of any other file, such as the original's, is found by following the lengths of
its records.
"""

import contextlib
import hashlib
import json
import logging
import os
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict

import google_crc32c
import numpy as np

from albert_tf import files
from albert_tf.environment import compiled
from albert_tf.errors import InputError
from albert_tf.files import Natural, read_json
from albert_tf.input.manifest import manifest_file
from albert_tf.terminal import ThroughputLine

logger = logging.getLogger(__name__)

# Reading a block takes one request to remote storage. The records of a block stay together within
# an epoch, so larger blocks shuffle less.
BLOCK = 64

_CHUNK_BYTES = 1 << 24
_THREADS = 16
# Bytes of a record besides its content: its length, and the checksums of length and content.
_FRAME_BYTES = 16


class FileIndex(TypedDict):
    """The size of a file in `bytes`, its number of `examples`, and the `offsets` of its blocks."""

    bytes: Natural
    examples: Natural
    offsets: list[Natural]


class RecordIndex(NamedTuple):
    """The blocks of some TFRecord files, in order.

    Attributes:
        file: int32 `[blocks]`, which of the files contains a block.
        offset, bytes, records: int64 `[blocks]`, position of its first byte, size, and number of
            records.
    """

    files: tuple[str, ...]
    file: np.ndarray
    offset: np.ndarray
    bytes: np.ndarray
    records: np.ndarray

    @property
    def examples(self) -> int:
        """Number of records of all files."""
        return int(self.records.sum())

    @property
    def first(self) -> np.ndarray:
        """int64 `[blocks]`, the number of records before each block, in all files."""
        return np.cumsum(self.records) - self.records

    @property
    def first_of_file(self) -> np.ndarray:
        """int64 `[files]`, the number of records before each file."""
        # A file without a record has no block; the last files may be such.
        first_block = np.searchsorted(self.file, np.arange(len(self.files)))
        return np.append(self.first, self.examples)[first_block]

    def name_of(self, record: int) -> str:
        """Name the record with a number in all files: its file, and its number there, from 0."""
        file = int(np.searchsorted(self.first_of_file, record, side="right")) - 1
        return f"{self.files[file]}: example {record - int(self.first_of_file[file])}"

    @classmethod
    def create(cls, paths: Sequence[str], indexes: Sequence[FileIndex] | None = None):
        """Return the index of some TFRecord files, with the given `indexes` or those found.

        Raises:
            InputError: If a file is truncated or no TFRecord file, or there is no example at all.
        """
        if indexes is None:
            indexes = find_indexes(paths)
        if not any(index["examples"] for index in indexes):
            raise InputError(f"{paths[0]}: contains no example, nor does any other input file")
        offsets = [np.array(index["offsets"], np.int64) for index in indexes]
        ends = [np.append(index["offsets"], index["bytes"]) for index in indexes]
        counts = [index["examples"] for index in indexes]
        return cls(
            tuple(paths),
            np.repeat(np.arange(len(paths), dtype=np.int32), list(map(len, offsets))),
            np.concatenate(offsets),
            np.concatenate([np.diff(end) for end in ends]).astype(np.int64),
            np.concatenate([np.minimum(n - np.arange(0, n, BLOCK), BLOCK) for n in counts]),
        )


def masked_crc(content: bytes) -> bytes:
    """Return the checksum of TFRecord files: a rotated CRC-32C plus a constant, 4 bytes.

    Source: tensorflow/core/lib/hash/crc32c.h.
    """
    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def index_file(output: str) -> str:
    """`d/a.tfrecord`, or a shard such as `d/a.tfrecord-00000-of-00008` -> `d/a.index.json`."""
    return manifest_file(output).removesuffix(".manifest.json") + ".index.json"


def write_indexes(paths: Sequence[str], indexes: Sequence[FileIndex]) -> None:
    """Write the indexes of the output files of data preparation next to them."""
    by_name = {os.path.basename(path): index for path, index in zip(paths, indexes, strict=True)}
    content = json.dumps({"block": BLOCK, "files": by_name}, separators=(",", ":"))
    files.write_text(index_file(paths[0]), content + "\n")


def find_indexes(paths: Sequence[str], checked: Mapping[str, str] | None = None) -> list[FileIndex]:
    """Return the indexes of some TFRecord files, as written next to them or else built.

    Finding the index of a file checks the length of every record. Written ones are believed if
    `checked` has them, file -> `fingerprint` of the index that was found before; None for all.

    Raises:
        InputError: If a file is truncated or not a TFRecord file.
    """
    folders = {os.path.dirname(path) for path in paths}
    written = {folder: _read_indexes(folder) for folder in folders}
    believed: dict[str, FileIndex] = {}
    others: dict[str, FileIndex] = {}
    for path in paths:
        folder, name = os.path.split(path)
        index = written[folder].get(name)
        if index is not None and index["bytes"] == files.size(path):
            is_believed = checked is None or checked.get(path) == fingerprint(path, index)
            (believed if is_believed else others)[path] = index
    found = believed | _find_records([path for path in paths if path not in believed])
    for path, index in others.items():
        if index != found[path]:
            logger.warning("%s: %s is wrong about it and is not used", path, index_file(path))
    return [found[path] for path in paths]


def _find_records(paths: Sequence[str]) -> dict[str, FileIndex]:
    """Return the indexes of files, by file; see `index_records`."""
    found: dict[str, FileIndex] = {}
    if paths:
        with (
            ThreadPoolExecutor(_THREADS) as threads,
            ThroughputLine("found the records of", "files", len(paths)) as progress,
        ):
            for path, index in zip(paths, threads.map(index_records, paths), strict=True):
                found[path] = index
                progress.update(len(found))
    return found


def fingerprint(path: str, index: FileIndex) -> str:
    """Identify a file and its index: another string if one of them has changed."""
    content = [files.file_identity(path), index["bytes"], index["examples"], index["offsets"]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _read_indexes(folder: str) -> dict[str, FileIndex]:
    found: dict[str, FileIndex] = {}
    for path in files.files_in(folder, "*.index.json"):
        # A damaged file, or one that has nothing to do with TFRecords, is as good as none.
        with contextlib.suppress(InputError):
            content = read_json(path, _Indexes)
            if content["block"] == BLOCK:
                found |= {n: index for n, index in content["files"].items() if _is_valid(index)}
    return found


class _Indexes(TypedDict):
    block: int
    files: dict[str, FileIndex]


def _is_valid(index: FileIndex) -> bool:
    bounds = np.array([*index["offsets"], index["bytes"]], np.int64)
    blocks = -(-index["examples"] // BLOCK)
    return len(bounds) == blocks + 1 and bounds[0] == 0 and bool((np.diff(bounds) > 0).all())


def index_records(path: str) -> FileIndex:
    """Find the blocks of a TFRecord file by following the lengths of its records.

    Raises:
        InputError: If the file is truncated or not a TFRecord file.
    """
    size, position, begins, before = files.size(path), 0, [], 0
    while position < size:
        content = files.read_bytes(path, position, min(position + _CHUNK_BYTES, size))
        chunk = np.frombuffer(content, np.uint8)
        found = np.empty(len(chunk) // _FRAME_BYTES + 1, np.int64)
        count, end = _follow_lengths(chunk, found, size - position)
        if end < 0 or not count:
            raise InputError(
                f"{path}: truncated, or not a TFRecord file: example {before + count} goes "
                "beyond its end"
            )
        begins.append(position + found[:count])
        position += end
        before += count
    all_begins = np.concatenate(begins) if begins else np.empty(0, np.int64)
    return {"bytes": size, "examples": len(all_begins), "offsets": all_begins[::BLOCK].tolist()}


@compiled
def _follow_lengths(chunk, begins, limit):
    """Find the records that begin in a chunk.

    Args:
        chunk: uint8 `[bytes]`; a record begins at its first byte.
        begins: int64, filled with the positions of records.
        limit: bytes to the end of the file.

    Returns:
        Number of records, and the position of the next one; -1 if a record goes beyond `limit`.
    """
    count = position = 0
    while position + 8 <= len(chunk):
        length: Any = np.int64(0)
        for byte in range(7, -1, -1):
            length = (length << 8) | np.int64(chunk[position + byte])
        if length < 0 or length > limit - position - _FRAME_BYTES:
            return count, -1
        begins[count] = position
        count += 1
        position += _FRAME_BYTES + length
    return count, position
