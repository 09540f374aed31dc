"""Documents as they are written to a corpus: in sentences, split if long, held out, repeated."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from albert_tf.tokenizers.wordpiece import IDEOGRAPHS
from data_prep.corpora.base import Counts, Document
from data_prep.extraction_options import ExtractionOptions
from data_prep.sentences import split_sentences
from data_prep.text_units import stripped

# A longer sentence is binary data or a table, and later stages could not use it.
MAX_SENTENCE_CHARACTERS = 1_000_000
KEY_BYTES = 12  # of a hash, by which no two of a billion paragraphs are taken for the same
_IDEOGRAPHS = re.compile(f"[{IDEOGRAPHS}]{{2,}}")


class OutputDocument(NamedTuple):
    """A document as it is written, or a piece of a long one.

    Attributes:
        text: its sentences, one per line, in UTF-8.
        name: name of the document; a piece of a long one has its number appended.
        key: identifies it in the corpus, likewise.
        source: source of the document.
        sentences: number of sentences.
        words: number of words; an ideograph counts as one.
        held_out: whether it is written to the evaluation output.
        copies: how often it is written.
        signature: its signature, in hexadecimal digits, if near duplicates are left out (see
            `near_duplicates`).
    """

    text: bytes
    name: str
    key: str
    source: str
    sentences: int
    words: int
    held_out: bool
    copies: int
    signature: str = ""


class Paragraph(NamedTuple):
    """A paragraph in sentences.

    Attributes:
        key: hash of its sentences, in hexadecimal digits, if paragraphs must be unique.
        characters: length of its text.
        sentences: its sentences.
    """

    key: str
    characters: int
    sentences: list[str]


def split_paragraphs(
    document: Document, options: ExtractionOptions, has_sentences: bool, counts: Counts
) -> Iterator[Paragraph]:
    """Yield the paragraphs of a document, split into sentences.

    Args:
        document: the document.
        options: the options of the run.
        has_sentences: whether every paragraph already is a sentence.
        counts: sentences that are too long are counted in it.
    """
    for text in document.paragraphs:
        found = [_one_line(text)] if has_sentences else split_sentences(text, options.language)
        sentences = [sentence for sentence in found if len(sentence) <= MAX_SENTENCE_CHARACTERS]
        if dropped := len(found) - len(sentences):
            counts.left_out["sentences longer than a million characters"] += dropped
        key = ""
        if options.unique_paragraphs:
            joined = "\n".join(sentences).encode("utf-8", "replace")
            key = hashlib.blake2b(joined, digest_size=KEY_BYTES).hexdigest()
        yield Paragraph(key, len(text), list(filter(stripped, sentences)))


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


def make_output_documents(
    document: Document,
    paragraphs: Iterable[Paragraph],
    weight: float,
    options: ExtractionOptions,
) -> Iterator[OutputDocument]:
    """Yield a document as it is written; a long one as several, split between paragraphs.

    Args:
        document: name and source of the document.
        paragraphs: its text.
        weight: how often it is written, on average.
        options: the options of the run.
    """
    document = document._replace(key=_tsv_field(document.key or document.name))
    copies = _copies(document.key, weight, options.random_seed)
    if not (copies or options.hold_out_parts or _is_held_out(document.key, options)):
        return
    limit = options.max_document_sentences
    sentences: list[str] = []
    number = 1
    for paragraph in paragraphs:
        if limit and sentences and len(sentences) + len(paragraph.sentences) > limit:
            yield from _output_document(document, f"#{number}", sentences, copies, options)
            sentences = []
            number += 1
        sentences += paragraph.sentences
    if sentences:
        suffix = f"#{number}" if number > 1 else ""
        yield from _output_document(document, suffix, sentences, copies, options)


def _output_document(
    document: Document,
    suffix: str,
    sentences: list[str],
    copies: int,
    options: ExtractionOptions,
) -> Iterator[OutputDocument]:
    """Yield it, unless its weight leaves it out."""
    held_out = _is_held_out(document.key + suffix * options.hold_out_parts, options)
    if not (copies or held_out):
        return
    text = "\n".join(sentences) + "\n"
    yield OutputDocument(
        text.encode("utf-8", "replace"),
        _tsv_field(document.name) + suffix,
        document.key + suffix,
        _tsv_field(document.source),
        len(sentences),
        text.count(" ") + len(sentences) + _more_ideographs(text),
        held_out,
        1 if held_out else copies,  # evaluating on the same text twice gains nothing
        _signature(text) if options.near_duplicates else "",
    )


def _is_held_out(key: str, options: ExtractionOptions) -> bool:
    return bool(options.eval_output_file) and (
        document_hash(key, "held out", options.random_seed) < options.eval_fraction
    )


def _signature(text: str) -> str:
    from data_prep.near_duplicates import signature  # loads numba

    return signature(text).hex()


def _more_ideographs(text: str) -> int:
    return 0 if text.isascii() else sum(len(run) - 1 for run in _IDEOGRAPHS.findall(text))


def _tsv_field(text: str) -> str:
    """Return a name without the characters that separate the fields and rows of a TSV file."""
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text


def _copies(key: str, weight: float, seed: int) -> int:
    """Return a weight of 2.5 gives 2 or 3 copies, with equal probability."""
    whole = int(weight)
    rest = weight - whole
    return whole + (rest > 0 and document_hash(key, "weight", seed) < rest)


def document_hash(key: str, purpose: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on the key of a document, not on the others."""
    digest = hashlib.blake2b(
        f"{seed}\t{purpose}\t{key}".encode("utf-8", "replace"), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big") / 2**64
