"""The files of a corpus, and which of the documents that were found are written to them."""

import contextlib
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import OutputDocument, document_hash
from data_prep.work_folder import WorkFolder, move

_STATISTICS = ("documents", "sentences", "words", "bytes")


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`, `corpus.de` -> `corpus.de.sources.tsv`."""
    return path.removesuffix(".txt") + ".sources.tsv"


def write_files(
    documents: Iterable[OutputDocument], work: WorkFolder, paths: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Write all copies of documents, and the tables of them, in a work folder.

    Args:
        documents: the documents.
        work: the folder.
        paths: final names of the text files.

    Returns:
        Numbers of documents, sentences, words and bytes, by final name.
    """
    written = {path: dict.fromkeys(_STATISTICS, 0) for path in paths}
    with contextlib.ExitStack() as stack:
        outputs = [
            (
                written[path],
                stack.enter_context(open(work.file(f"{number}.txt"), "wb")),
                stack.enter_context(open(work.file(f"{number}.tsv"), "wb")),
            )
            for number, path in enumerate(paths)
        ]
        for document in documents:
            statistics, texts, table = outputs[document.held_out]
            row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
            counts = (1, document.sentences, document.words, len(document.text) + 1)
            for _ in range(document.copies):
                texts.write(b"\n" * bool(statistics["documents"]) + document.text)
                table.write(row)
                for name, count in zip(_STATISTICS, counts, strict=True):
                    statistics[name] += count
    return written


def publish_files(work: WorkFolder, paths: Sequence[str]) -> None:
    """Move what `write_files` has written to its final names."""
    for number, path in enumerate(paths):
        move(work.file(f"{number}.txt"), path)
        move(work.file(f"{number}.tsv"), sources_file(path))


class Selection(NamedTuple):
    """The documents to write.

    Attributes:
        kept: whether each document is written, bool `[documents]`.
        near_duplicates: number of documents that are similar to an earlier one.
        left_out_bytes: size of the others that are left out.
    """

    kept: np.ndarray
    near_duplicates: int
    left_out_bytes: int


def select(
    documents: Iterable[OutputDocument], options: ExtractionOptions, folder: str
) -> Selection:
    """Leave out near duplicates, and what exceeds a size; memory has a few numbers per document.

    Args:
        documents: all documents, with their signatures if near duplicates are left out.
        options: the options of the run.
        folder: folder for temporary files.
    """
    hashes, sizes = array("d"), array("q")
    with tempfile.TemporaryFile(dir=folder) as signatures:
        for document in documents:
            hashes.append(document_hash(document.key, "kept", options.random_seed))
            sizes.append((len(document.text) + 1) * document.copies)
            signatures.write(bytes.fromhex(document.signature))
        signatures.flush()
        kept = np.ones(len(sizes), np.bool_)
        if options.near_duplicates and len(sizes):
            from data_prep.near_duplicates import PERMUTATIONS, find_near_duplicates  # loads numba

            rows = np.memmap(signatures, "<u2", "r", shape=(len(sizes), PERMUTATIONS))
            kept = ~find_near_duplicates(rows.view(np.ndarray), options.near_duplicates, folder)
    unique = np.flatnonzero(kept)
    left_out_bytes = 0
    if options.max_megabytes:
        size_of = np.array(sizes)[unique]
        fits = sample(np.array(hashes)[unique], size_of, int(options.max_megabytes * 1e6))
        kept[unique] = fits
        left_out_bytes = int(size_of[~fits].sum())
    return Selection(kept, len(kept) - len(unique), left_out_bytes)


def sample(hashes: np.ndarray, sizes: np.ndarray, limit: int) -> np.ndarray:
    """Return which documents, those with the smallest hashes, fit into a size: bool `[documents]`.

    Every document has the same chance wherever it occurs in the corpus. The sample ends with the
    first document that does not fit; a large one is left out alone, so that little room remains.

    Args:
        hashes: float64 `[documents]`.
        sizes: int64 `[documents]`, in bytes.
        limit: the size of the sample.
    """
    kept = np.zeros(len(sizes), np.bool_)
    free = limit
    for number in np.argsort(hashes, kind="stable").tolist():
        if sizes[number] <= free:
            kept[number] = True
            free -= int(sizes[number])
        elif sizes[number] <= limit / 50:
            break
    return kept
