"""A uniform sample of the documents of a corpus, up to a size."""

from __future__ import annotations

import heapq
import os
import tempfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from data_prep.output_documents import OutputDocument, document_hash


class _Entry(NamedTuple):
    """A document in the sample; entries compare by the first field.

    Attributes:
        priority: the negative hash, so that the heap's first entry has the largest hash.
        offset: where the compressed text begins in the temporary file.
        compressed_bytes: its size there.
        output_bytes: bytes that the document adds to the output.
        document: the document without its text.
    """

    priority: float
    offset: int
    compressed_bytes: int
    output_bytes: int
    document: OutputDocument


class DocumentSample:
    """Keeps the documents with the smallest hashes that fit into a size, in their order.

    Every document has the same chance wherever it occurs in the corpus. Texts are kept in a
    temporary file; memory holds only a few numbers per document.

    Args:
        megabytes: maximum size of the sample.
        seed: seed of the choice.
        folder: folder for the temporary file.

    Attributes:
        left_out_bytes: size of the documents that were not kept.
    """

    def __init__(self, megabytes: float, seed: int, folder: str):
        self._seed, self._free_bytes = seed, int(megabytes * 1e6)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed in `__exit__`)
        self._kept: list[_Entry] = []  # a heap
        self._limit = 1.0
        self.left_out_bytes = 0

    def add(self, document: OutputDocument) -> None:
        """Add a document, or leaves it out; may remove others that were added before."""
        drawn = document_hash(document.name, "kept", self._seed)
        text = document.text.encode()
        output_bytes = (len(text) + 1) * document.copies
        if drawn >= self._limit:
            self.left_out_bytes += output_bytes
            return
        compressed = zlib.compress(text, 1)
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(compressed)
        entry = _Entry(-drawn, offset, len(compressed), output_bytes, document._replace(text=""))
        heapq.heappush(self._kept, entry)
        self._free_bytes -= output_bytes
        while self._free_bytes < 0:
            dropped = heapq.heappop(self._kept)
            self._free_bytes += dropped.output_bytes
            self.left_out_bytes += dropped.output_bytes
            self._limit = -dropped.priority

    def __iter__(self) -> Iterator[OutputDocument]:
        for entry in sorted(self._kept, key=lambda entry: entry.offset):
            self._file.seek(entry.offset)
            text = zlib.decompress(self._file.read(entry.compressed_bytes)).decode()
            yield entry.document._replace(text=text)

    def __enter__(self) -> DocumentSample:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
