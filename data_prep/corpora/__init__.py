"""Readers of corpora: one table of formats, and what every reader yields."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError


class Document(NamedTuple):
    """A text whose sentences follow one another, so that their order means something.

    Attributes:
        name: which text it is, wherever the corpus lies; decides whether it is held out.
        source: where it comes from, such as a package or a book: a label for classification.
        paragraphs: its text; whether a paragraph is one sentence is up to the format.
    """

    name: str
    source: str
    paragraphs: list[str]


@dataclasses.dataclass
class Counts:
    """What a reader read and left out, for the summary at the end; of several units as a sum.

    Attributes:
        input_bytes: bytes of the input files that were read, compressed ones as they are.
        characters: characters of text found, repeated ones included.
        repeated_characters: characters left out because the same paragraph came before.
        skipped: files, pages or rows that could not be parsed.
        left_out: what was left out on purpose, by reason: {"redirects": 12}.
        warnings: damage that the user should know of, a line each.
    """

    input_bytes: int = 0
    characters: int = 0
    repeated_characters: int = 0
    skipped: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def __iadd__(self, other: Counts) -> Counts:
        self.input_bytes += other.input_bytes
        self.characters += other.characters
        self.repeated_characters += other.repeated_characters
        self.skipped += other.skipped
        self.left_out.update(other.left_out)
        for line in other.warnings:
            self.warn(line)
        return self

    def __add__(self, other: Counts) -> Counts:
        total = Counts()
        total += self
        total += other
        return total

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"left_out": dict(self.left_out)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Counts:
        return cls(**(values | {"left_out": Counter(values.get("left_out", {}))}))

    def warn(self, line: str) -> None:
        """Adds a warning; several units may come upon the same damage."""
        if line not in self.warnings:
            self.warnings.append(line)


@dataclasses.dataclass(frozen=True)
class ReaderOptions:
    """What the readers need of the flags of the same names."""

    language: str = "en"
    keep_headings: bool = False
    keep_lists: bool = False
    text_column: str = "text"
    title_column: str | None = None
    package_list: str | None = None


class Format(NamedTuple):
    """A row of the table.

    A corpus is read in units, so that several processes can share the work. Units come in an order
    that is always the same; each is a small thing that can be sent to another process.

    Attributes:
        units: the units of some files or globs, found quickly; they go through `documents`.
        documents: yields the documents of a unit, and counts them in the counts of that unit.
        needs_input: whether it reads `--input_file` at all.
        has_sentences: whether each paragraph is a sentence already.
        unique_paragraphs: whether a paragraph that came before, in any unit, is left out.
        ending: of the files for which their folder may stand; "" where it stands for all.
    """

    units: Callable[[Sequence[str], ReaderOptions], Iterator[Any]]
    documents: Callable[[Any, ReaderOptions, Counts], Iterator[Document]]
    needs_input: bool = True
    has_sentences: bool = False
    unique_paragraphs: bool = False
    ending: str = ""


def find_files(patterns: Sequence[str]) -> list[str]:
    """The files of a format that does not read folders.

    Raises:
        InputError: a pattern matches nothing, or a folder.
    """
    found = files.expand_globs(patterns, "input_file")
    for path in found:
        if os.path.isdir(path):
            raise InputError(f"--input_file: {path} is a folder; name its files")
    return found


from data_prep.corpora import (  # noqa: E402  (they use the types above)
    books,
    package_docs,
    reading_sets,
    table,
    text,
    wikipedia,
)

FORMATS: dict[str, Format] = {
    "package_docs": Format(
        package_docs.units, package_docs.documents, needs_input=False, unique_paragraphs=True
    ),
    "books": Format(books.units, books.documents, ending=".txt"),
    "text": Format(text.units, text.documents, has_sentences=True),
    "wikipedia": Format(wikipedia.units, wikipedia.documents),
    "table": Format(table.units, table.documents),
    "reading_sets": Format(reading_sets.units, reading_sets.documents),
}
