"""Readers of corpora: one table of formats, and what every reader yields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


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
    """What a reader left out, for the summary at the end.

    Attributes:
        skipped: files or pages that could not be parsed.
        characters: characters of text found, repeated ones included.
        repeated_characters: characters left out because the same paragraph came before.
    """

    skipped: int = 0
    characters: int = 0
    repeated_characters: int = 0


class Format(NamedTuple):
    """A row of the table.

    Attributes:
        read: yields the documents of some files or globs, always in the same order.
        needs_input: whether it reads `--input_file` at all.
        has_sentences: whether each paragraph is a sentence already.
    """

    read: Callable[[Sequence[str], Counts], Iterator[Document]]
    needs_input: bool = True
    has_sentences: bool = False


from data_prep.corpora import books, package_docs, text  # noqa: E402  (they use the types above)

FORMATS: dict[str, Format] = {
    "package_docs": Format(package_docs.read, needs_input=False),
    "books": Format(books.read),
    "text": Format(text.read, has_sentences=True),
}
