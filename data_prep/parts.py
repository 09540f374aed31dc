"""Documents as they are written: in sentences, cut where they are long, held out, repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from data_prep.corpora import Counts, Document
from data_prep.sentences import split_sentences

if TYPE_CHECKING:
    from data_prep.extract_corpus import Options

# No sentence is longer; such a line is binary data or a table, and later stages could not use it.
LONGEST_SENTENCE = 1_000_000


class Part(NamedTuple):
    """A document as it is written, or a piece of a long one.

    Attributes:
        name, source: of the document; a piece has its number behind the name.
        text: its sentences, a line each.
        sentences, words: how many there are.
        held_out: whether it goes to the evaluation output.
        copies: how often it is written there.
    """

    name: str
    source: str
    text: str
    sentences: int
    words: int
    held_out: bool
    copies: int


class Paragraph(NamedTuple):
    """A paragraph in sentences.

    Attributes:
        key: stands for its text.
        characters: its length.
        sentences: its sentences.
    """

    key: bytes
    characters: int
    sentences: list[str]


def split_document(
    document: Document, language: str, has_sentences: bool, counts: Counts
) -> Iterator[Paragraph]:
    """Yields the paragraphs of a document in sentences.

    Args:
        document: the document.
        language: code of its language.
        has_sentences: whether a paragraph is a sentence already, and any may end a piece.
        counts: sentences that are too long for one are counted.
    """
    for text in document.paragraphs:
        found = [_one_line(text)] if has_sentences else split_sentences(text, language)
        sentences = [sentence for sentence in found if len(sentence) <= LONGEST_SENTENCE]
        if len(sentences) < len(found):
            counts.left_out["sentences of more than a million characters"] += len(found) - len(
                sentences
            )
        key = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).digest()
        yield Paragraph(key, len(text), [sentence for sentence in sentences if sentence])


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


def make_parts(
    document: Document, paragraphs: Iterable[Paragraph], weight: float, options: Options
) -> Iterator[Part]:
    """Yields a document as it is written; a long one in several parts, cut between paragraphs."""
    copies = _copies(document.name, weight, options.random_seed)
    if not copies:
        return
    limit = options.max_document_sentences
    sentences: list[str] = []
    number = 1
    for paragraph in paragraphs:
        if limit and sentences and len(sentences) + len(paragraph.sentences) > limit:
            yield _part(document, f"#{number}", sentences, copies, options)
            sentences = []
            number += 1
        sentences += paragraph.sentences
    if sentences:
        yield _part(document, f"#{number}" * (number > 1), sentences, copies, options)


def _part(
    document: Document, number: str, sentences: list[str], copies: int, options: Options
) -> Part:
    name = _field(document.name) + number
    text = "\n".join(sentences) + "\n"
    held_out = bool(options.eval_output_file) and (
        share(name, "held out", options.random_seed) < options.eval_fraction
    )
    return Part(
        name,
        _field(document.source),
        text,
        len(sentences),
        text.count(" ") + len(sentences),
        held_out,
        1 if held_out else copies,  # a measurement gains nothing from the same text twice
    )


def _field(text: str) -> str:
    """A name as a field of a table with tabs between fields."""
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text


def _copies(name: str, weight: float, seed: int) -> int:
    """2.5 -> 2 or 3, with the same chance."""
    whole = int(weight)
    rest = weight - whole
    return whole + (rest > 0 and share(name, "weight", seed) < rest)


def share(name: str, purpose: str, seed: int) -> float:
    """A number in [0, 1) that depends on the name of a document alone, not on its place."""
    digest = hashlib.blake2b(
        f"{seed}\t{purpose}\t{name}".encode("utf-8", "replace"), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big") / 2**64
