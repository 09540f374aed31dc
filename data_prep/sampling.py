"""A part of a corpus, drawn uniformly, whose size is bounded."""

from __future__ import annotations

import heapq
import os
import tempfile
import zlib
from collections.abc import Iterator

from data_prep.parts import Part, share


class Sample:
    """Keeps the documents of the smallest hashes that fit in a size, in their order.

    Every document has the same chance, wherever it stands. Texts wait in a temporary file, so that
    memory holds a few numbers a document.

    Args:
        megabytes: the size.
        seed: decides which documents are kept.
        folder: where the temporary file is to be.

    Attributes:
        left_out: bytes of the documents that were not kept.
    """

    def __init__(self, megabytes: float, seed: int, folder: str):
        self._seed, self._room = seed, int(megabytes * 1e6)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed in `__exit__`)
        self._kept: list[tuple] = []  # heap of (-hash, offset, size, length, rest of the part)
        self._limit = 1.0
        self.left_out = 0

    def add(self, part: Part) -> None:
        drawn = share(part.name, "kept", self._seed)
        text = part.text.encode()
        length = (len(text) + 1) * part.copies
        if drawn >= self._limit:
            self.left_out += length
            return
        packed = zlib.compress(text, 1)
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(packed)
        heapq.heappush(self._kept, (-drawn, offset, len(packed), length, part._replace(text="")))
        self._room -= length
        while self._room < 0:
            dropped = heapq.heappop(self._kept)
            self._room += dropped[3]
            self.left_out += dropped[3]
            self._limit = -dropped[0]

    def __iter__(self) -> Iterator[Part]:
        for _, offset, size, _, part in sorted(self._kept, key=lambda kept: kept[1]):
            self._file.seek(offset)
            yield part._replace(text=zlib.decompress(self._file.read(size)).decode())

    def __enter__(self) -> Sample:
        return self

    def __exit__(self, *exception) -> None:
        self._file.close()
