"""A text corpus as units of work: byte ranges of its files, and the documents that begin in them.

A unit contains the documents whose preceding blank line begins inside its range; the first unit of
a file also contains the document at the start of the file. Any process can therefore read any unit
on its own, no document is split or read twice, and the units depend on the files only.

Where blank lines do not separate documents, a document can be a number of consecutive lines. A unit
then contains the lines that begin inside its range, and its last document may be shorter.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError

# Small enough that even a modest corpus keeps many processes busy to the end, and large enough
# that a huge corpus is not split into countless pieces.
_UNITS = 256
_MIN_UNIT_BYTES = 1_000_000
_MAX_UNIT_BYTES = 32_000_000

# Longer documents are read in parts of this size, which bounds memory.
MAX_DOCUMENT_BYTES = 8_000_000
# No sentence is longer; such a line is skipped and counted.
MAX_LINE_BYTES = 1_000_000

_CHUNK_BYTES = 1 << 20
# Read first after the end of a unit, then twice as much each time.
_REST_BYTES = 1 << 12


class TextUnit(NamedTuple):
    """The documents that begin in a byte range of a file.

    Attributes:
        path: the file.
        file: its index among the input files.
        begin, end: the range in bytes.
        reference: the file that says which tokens of the text continue words, and the byte in it
            that belongs to the first line of the range.
    """

    path: str
    file: int
    begin: int
    end: int
    reference: tuple[str, int] | None = None


class TextDocument(NamedTuple):
    """A document, or a part of a long one.

    Attributes:
        file: index of its file; together with `offset`, identifies it in the corpus.
        offset: byte at which it begins in the file.
        sentences: its lines, without surrounding white space.
    """

    file: int
    offset: int
    sentences: list[str]


def split_into_units(paths: Sequence[str]) -> list[TextUnit]:
    """Splits text files into units, in order; deterministic for the same files."""
    sizes = [files.size(path) for path in paths]
    length = min(max(sum(sizes) // _UNITS, _MIN_UNIT_BYTES), _MAX_UNIT_BYTES)
    return [
        TextUnit(path, file, begin, min(begin + length, size))
        for file, (path, size) in enumerate(zip(paths, sizes, strict=True))
        for begin in range(0, size, length)
    ]


def read_unit(
    unit: TextUnit, counts: Counter[str], document_sentences: int = 0
) -> Iterator[TextDocument]:
    """Yields the documents of a unit that contain text.

    Args:
        unit: the unit.
        counts: `skipped_lines` is added to it.
        document_sentences: number of lines of a document, blank ones not counted; 0: documents are
            separated by blank lines.

    Raises:
        InputError: if the file is not UTF-8.
    """
    if document_sentences:
        yield from _read_lines(unit, counts, document_sentences)
        return
    sentences: list[str] = []
    begin = collected = 0  # where the current document begins, and its bytes in `sentences`
    inside = unit.begin == 0  # whether the current document belongs to this unit
    for offset, line, size in lines_from(unit):
        if not (inside or offset < unit.end):
            return
        if not line.strip():
            if sentences:
                yield TextDocument(unit.file, begin, sentences)
                sentences, collected = [], 0
            if offset >= unit.end:
                return
            begin, inside = offset + size, True
        elif inside:
            if size > MAX_LINE_BYTES:
                counts["skipped_lines"] += 1
                continue
            if sentences and collected + size > MAX_DOCUMENT_BYTES:
                yield TextDocument(unit.file, begin, sentences)
                sentences, collected, begin = [], 0, offset
            if sentence := decoded(line, offset, unit.path):
                sentences.append(sentence)
                collected += size
    if sentences:
        yield TextDocument(unit.file, begin, sentences)


def _read_lines(
    unit: TextUnit, counts: Counter[str], document_sentences: int
) -> Iterator[TextDocument]:
    sentences: list[str] = []
    begin = 0
    for offset, line, size in lines_from(unit):
        if offset >= unit.end:
            break
        if size > MAX_LINE_BYTES:
            counts["skipped_lines"] += 1
        elif sentence := decoded(line, offset, unit.path):
            begin = begin if sentences else offset
            sentences.append(sentence)
            if len(sentences) == document_sentences:
                yield TextDocument(unit.file, begin, sentences)
                sentences = []
    if sentences:
        yield TextDocument(unit.file, begin, sentences)


def lines_from(unit: TextUnit) -> Iterator[tuple[int, bytes, int]]:
    """Yields (offset, line, size) of the lines that begin in the unit or after it.

    Only the beginning of a line longer than `MAX_LINE_BYTES` is kept in memory.
    """
    with files.open_file(unit.path, "rb") as file:
        # Start one byte early to see whether the unit begins at a line start or inside a line.
        start = max(unit.begin - 1, 0)
        file.seek(start)
        is_first = unit.begin > 0
        pending, cut = b"", 0  # the current line, and how many bytes of it were dropped
        inside, beyond = unit.end - start, _REST_BYTES
        while chunk := file.read(min(_CHUNK_BYTES, inside or beyond)):
            if inside:
                inside -= len(chunk)
            else:
                beyond *= 2
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                line = pending + line
                size = len(line) + cut + 1
                if not is_first:
                    yield start, _without_byte_order_mark(line, start), size
                start, is_first, pending, cut = start + size, False, b"", 0
            pending += rest
            if len(pending) > MAX_LINE_BYTES:
                pending, cut = pending[:MAX_LINE_BYTES], cut + len(pending) - MAX_LINE_BYTES
        if pending and not is_first:
            yield start, _without_byte_order_mark(pending, start), len(pending) + cut


def _without_byte_order_mark(line: bytes, offset: int) -> bytes:
    return line if offset else line.removeprefix(codecs.BOM_UTF8)


def decoded(line: bytes, offset: int, path: str) -> str:
    """A line of a file as text, without surrounding white space.

    Raises:
        InputError: if it is not UTF-8.
    """
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: line {line_number(path, offset)} is not UTF-8 ({error.reason}, byte "
            f"0x{line[error.start]:02x}); convert the file first, for example with iconv"
        ) from None


def line_number(path: str, offset: int) -> int:
    """The number, from 1, of the line of a file that begins at an offset in bytes."""
    number = 1
    with files.open_file(path, "rb") as file:
        while offset > 0 and (chunk := file.read(min(offset, _CHUNK_BYTES))):
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number
