"""Documents stored on disk until all are known, so that near duplicates can be left out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from albert_tf.progress import ThroughputLine
from data_prep.appended_files import AppendedFiles
from data_prep.near_duplicates import PERMUTATIONS, find_near_duplicates
from data_prep.output_documents import OutputDocument


class DocumentStore(AppendedFiles):
    """Documents and their signatures, in the order of the corpus.

    Args:
        folder: folder of the files.
    """

    def __init__(self, folder: str):
        paths = [os.path.join(folder, name) for name in ("documents", "signatures")]
        super().__init__(paths, paths, ("documents",))

    def add(self, document: OutputDocument) -> None:
        """Add a document."""
        text = document.text.encode("utf-8", "replace")
        numbers = (len(text), document.sentences, document.words, document.copies)
        fields = [*map(str, (*numbers, int(document.held_out))), *document[:3]]
        row = "\t".join(fields).encode("utf-8", "replace")
        self.append(row + b"\n" + text, document.signature)
        self.written["documents"] += 1

    def without_near_duplicates(self, similarity: float) -> Iterator[OutputDocument]:
        """Yield the documents that are no near duplicates of an earlier one.

        Args:
            similarity: that of near duplicates, at least.
        """
        self.flushed()
        documents, signatures = self.partial
        count = self.written["documents"]
        if not count:
            return
        rows = np.memmap(signatures, "<u2", "r", shape=(count, PERMUTATIONS)).view(np.ndarray)
        is_duplicate = find_near_duplicates(rows, similarity, os.path.dirname(documents))
        with open(documents, "rb") as file, ThroughputLine("wrote", "documents", count) as progress:
            for number, is_left_out in enumerate(is_duplicate):
                *numbers, name, key, source = file.readline().decode().rstrip("\n").split("\t")
                size, sentences, words, copies, held_out = map(int, numbers)
                text = file.read(size)
                if not is_left_out:
                    yield OutputDocument(
                        name, key, source, text.decode(), sentences, words, bool(held_out), copies
                    )
                progress.update(number)
