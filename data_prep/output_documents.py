"""Documents as they are written to a corpus: in sentences, split, held out, sampled."""

import contextlib
import hashlib
import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.tokenizers.wordpiece import IDEOGRAPHS
from data_prep.corpora.base import Counts, Document
from data_prep.extraction_options import ExtractionOptions
from data_prep.sentences import split_sentences
from data_prep.text_units import stripped
from data_prep.work_folder import WorkFolder, move

# A longer sentence is binary data or a table, and later stages could not use it.
MAX_SENTENCE_CHARACTERS = 1_000_000
KEY_BYTES = 12  # of a hash, by which no two of a billion paragraphs are taken for the same
_IDEOGRAPHS = re.compile(f"[{IDEOGRAPHS}]{{2,}}")
_BEFORE_IDEOGRAPHS = bytes(range(0xE3))  # UTF-8 of characters below U+3000


class OutputDocument(NamedTuple):
    """A document as it is written, or a piece of a long one.

    Attributes:
        text: its sentences, one per line, in UTF-8.
        name: name of the document; a piece of a long one has its number appended.
        key: identifies it in the corpus, likewise.
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
        key: hash of its sentences, `[KEY_BYTES]`, if paragraphs must be unique.
        characters: length of its text.
    """

    key: bytes
    characters: int
    sentences: list[str]


def split_paragraphs(
    document: Document, options: ExtractionOptions, has_sentences: bool, counts: Counts
) -> Iterator[Paragraph]:
    """Yield the paragraphs of a document, split into sentences, unless each already is one."""
    for text in document.paragraphs:
        found = [_one_line(text)] if has_sentences else split_sentences(text, options.language)
        sentences = [sentence for sentence in found if len(sentence) <= MAX_SENTENCE_CHARACTERS]
        if dropped := len(found) - len(sentences):
            counts.left_out["sentences longer than a million characters"] += dropped
        key = b""
        if options.unique_paragraphs:
            joined = "\n".join(sentences).encode("utf-8", "replace")
            key = hashlib.blake2b(joined, digest_size=KEY_BYTES).digest()
        yield Paragraph(key, len(text), list(filter(stripped, sentences)))


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


def make_output_documents(
    document: Document,
    paragraphs: Iterable[list[str]],
    weight: float,
    options: ExtractionOptions,
) -> Iterator[OutputDocument]:
    """Yield a document as it is written; a long one as several, split between paragraphs.

    Args:
        document: name and source of the document.
        paragraphs: its paragraphs in sentences.
        weight: how often it is written, on average.
    """
    document = document._replace(key=tsv_field(document.key or document.name))
    copies = _copies(document.key, weight, options.random_seed)
    if not (copies or options.hold_out_parts or _is_held_out(document.key, options)):
        return
    limit = options.max_document_sentences
    sentences: list[str] = []
    number = 1
    for paragraph in paragraphs:
        if limit and sentences and len(sentences) + len(paragraph) > limit:
            yield from _output_document(document, f"#{number}", sentences, copies, options)
            sentences = []
            number += 1
        sentences += paragraph
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
    encoded = text.encode("utf-8", "replace")
    yield OutputDocument(
        encoded,
        tsv_field(document.name) + suffix,
        document.key + suffix,
        tsv_field(document.source),
        len(sentences),
        text.count(" ") + len(sentences) + _more_ideographs(text, encoded),
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


def _more_ideographs(text: str, encoded: bytes) -> int:
    if not encoded.translate(None, _BEFORE_IDEOGRAPHS):  # many times faster than a search
        return 0
    return sum(len(run) - 1 for run in _IDEOGRAPHS.findall(text))


def tsv_field(text: str) -> str:
    """Return a name without the characters that separate the fields and rows of a TSV file."""
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text


def _copies(key: str, weight: float, seed: int) -> int:
    """Return a weight of 2.5 gives 2 or 3 copies, with equal probability."""
    whole = int(weight)
    rest = weight - whole
    return whole + (rest > 0 and document_hash(key, "weight", seed) < rest)


def document_hash(key: str, purpose: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on the key of a document, not on the others."""
    text = f"{seed}\t{purpose}\t{key}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`, `corpus.de` -> `corpus.de.sources.tsv`."""
    return path.removesuffix(".txt") + ".sources.tsv"


def summary_file(output_file: str) -> str:
    """`corpus.txt` -> `corpus.corpus.json` (`.manifest.json` belongs to TFRecord files)."""
    return output_file.removesuffix(".txt") + ".corpus.json"


def removed_file(output_file: str) -> str:
    """`corpus.txt` -> `corpus.decontaminated.tsv`."""
    return output_file.removesuffix(".txt") + ".decontaminated.tsv"


def write_files(
    documents: Iterable[OutputDocument], work: WorkFolder, paths: Sequence[str]
) -> dict[str, Counter[str]]:
    """Write all copies of documents, and the tables of them, in a work folder.

    Args:
        paths: final names of the text files.

    Returns:
        Numbers of documents, sentences, words and bytes, by final name.
    """
    written = {path: Counter(documents=0, sentences=0, words=0, bytes=0) for path in paths}
    with contextlib.ExitStack() as stack:
        texts, tables = (
            [stack.enter_context(open(work.file(f"{n}.{end}"), "wb")) for n in range(len(paths))]
            for end in ("txt", "tsv")
        )
        for document in documents:
            statistics = written[paths[document.held_out]]
            text, table = texts[document.held_out], tables[document.held_out]
            row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
            for _ in range(document.copies):
                text.write(b"\n" * bool(statistics["documents"]) + document.text)
                table.write(row)
                statistics["documents"] += 1
                statistics["sentences"] += document.sentences
                statistics["words"] += document.words
                statistics["bytes"] += len(document.text) + 1
    return written


def publish_files(work: WorkFolder, paths: Sequence[str]) -> None:
    """Move what `write_files` has written to its final names."""
    for number, path in enumerate(paths):
        move(work.file(f"{number}.txt"), path)
        move(work.file(f"{number}.tsv"), sources_file(path))


def select(
    documents: Iterable[OutputDocument], options: ExtractionOptions, folder: str
) -> tuple[np.ndarray, int, int]:
    """Leave out near duplicates, and what exceeds a size; memory has a few numbers per document.

    Args:
        documents: all documents, with their signatures if near duplicates are left out.

    Returns:
        Whether each document is written, bool `[documents]`; the number of those that are similar
        to an earlier one; the size in bytes of the others that are left out.
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
        fits = _sample(np.array(hashes)[unique], size_of, int(options.max_megabytes * 1e6))
        kept[unique] = fits
        left_out_bytes = int(size_of[~fits].sum())
    return kept, len(kept) - len(unique), left_out_bytes


def _sample(hashes: np.ndarray, sizes: np.ndarray, limit: int) -> np.ndarray:
    """Return which documents, those with the smallest hashes, fit into a size: bool `[documents]`.

    Every document has the same chance wherever it occurs in the corpus. The sample ends with the
    first document that does not fit; a large one is left out alone, so that little room remains.
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
