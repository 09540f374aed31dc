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

    Every document has the same chance wherever it occurs in the corpus. The sample ends with the
    first document that does not fit; a large one is left out alone, so that little room remains.
    Texts are kept in a temporary file; memory holds only a few numbers per document.

    Args:
        megabytes: maximum size of the sample.
        seed: seed of the choice.
        folder: folder for the temporary file.

    Attributes:
        left_out_bytes: size of the documents that were not kept.
    """

    def __init__(self, megabytes: float, seed: int, folder: str):
        self._seed, self._bytes = seed, int(megabytes * 1e6)
        self._free_bytes = self._bytes  # but for large documents
        self._large_bytes = self._bytes / 50
        self._large: list[_Entry] = []
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed in `__exit__`)
        self._kept: list[_Entry] = []  # a heap
        self._limit = 1.0
        self.left_out_bytes = 0

    def add(self, document: OutputDocument) -> None:
        """Add a document, or leaves it out; may remove others that were added before."""
        priority = -document_hash(document.key, "kept", self._seed)
        text = document.text.encode()
        output_bytes = (len(text) + 1) * document.copies
        self.left_out_bytes += output_bytes
        is_large = output_bytes > self._large_bytes
        if self._is_hopeless(priority, output_bytes) if is_large else -priority >= self._limit:
            return
        compressed = zlib.compress(text, 1)
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(compressed)
        entry = _Entry(priority, offset, len(compressed), output_bytes, document._replace(text=""))
        if is_large:
            self._large.append(entry)
            return
        heapq.heappush(self._kept, entry)
        self._free_bytes -= output_bytes
        while self._free_bytes < 0:
            dropped = heapq.heappop(self._kept)
            self._free_bytes += dropped.output_bytes
            self._limit = -dropped.priority

    def _is_hopeless(self, priority: float, output_bytes: int) -> bool:
        """Return whether large documents that come first, none of them larger, leave no room."""
        first = (e for e in self._large if e.priority > priority and e.output_bytes <= output_bytes)
        return output_bytes + sum(entry.output_bytes for entry in first) > self._bytes

    def __iter__(self) -> Iterator[OutputDocument]:
        chosen, free_bytes = [], self._bytes
        for entry in sorted(self._kept + self._large, reverse=True):
            if entry.output_bytes <= free_bytes:
                chosen.append(entry)
                free_bytes -= entry.output_bytes
            elif entry.output_bytes <= self._large_bytes:
                break
        for entry in sorted(chosen, key=lambda entry: entry.offset):
            self.left_out_bytes -= entry.output_bytes
            self._file.seek(entry.offset)
            text = zlib.decompress(self._file.read(entry.compressed_bytes)).decode()
            yield entry.document._replace(text=text)

    def __enter__(self) -> DocumentSample:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
