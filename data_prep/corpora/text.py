"""The original's format: a sentence a line, a blank line between documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from albert_tf import files
from data_prep.corpora import Counts, Document


def read(patterns: Sequence[str], counts: Counts) -> Iterator[Document]:
    """Yields the documents of text files.

    Args:
        patterns: files or globs.
        counts: characters are counted in it.

    Raises:
        InputError: a pattern matches nothing, or a file is not UTF-8.
    """
    for path in files.expand_globs(patterns, "input_file"):
        source = os.path.basename(path)
        for number, sentences in enumerate(read_documents(path), start=1):
            counts.characters += sum(map(len, sentences))
            yield Document(f"{source}:{number}", source, sentences)


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
