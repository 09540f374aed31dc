"""The original's format: a sentence a line, a blank line between documents."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import Counts, Document, ReaderOptions
from data_prep.units import Unit, read_unit

_UNIT_BYTES = 4_000_000


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[Unit]:
    """Byte ranges of text files.

    Args:
        patterns: files or globs.
        options: unused.

    Raises:
        InputError: a pattern matches nothing, or a folder.
    """
    for number, path in enumerate(files.expand_globs(patterns, "input_file")):
        if os.path.isdir(path):
            raise InputError(f"--input_file: {path} is a folder; name its files")
        size = files.size(path)
        for begin in range(0, size, _UNIT_BYTES):
            yield Unit(path, number, begin, min(begin + _UNIT_BYTES, size))


def documents(unit: Unit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yields the documents that begin in a unit, by the name of the file and their byte in it.

    Raises:
        InputError: the file is not UTF-8.
    """
    counts.input_bytes += unit.end - unit.begin
    source = os.path.basename(unit.path)
    unit_counts: Counter[str] = Counter()
    for document in read_unit(unit, unit_counts):
        counts.characters += sum(map(len, document.sentences))
        yield Document(f"{source}:{document.offset}", source, document.sentences)
    if unit_counts["skipped_lines"]:
        counts.left_out["lines of more than a megabyte"] += unit_counts["skipped_lines"]


def read_documents(path: str) -> Iterator[list[str]]:
    """Yields the documents of one file, as lists of sentences; empty documents are left out."""
    sentences: list[str] = []
    for line in files.read_lines(path):
        if line := line.strip():
            sentences.append(line)
        elif sentences:
            yield sentences
            sentences = []
    if sentences:
        yield sentences
