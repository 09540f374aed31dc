"""A text corpus as units of work: byte ranges of its files, and the documents that begin in them.

A unit holds the documents whose preceding blank line begins inside its range; the first unit of a
file also holds the document at its very start. So any process can read any unit alone, no
document is cut by a range or read twice, and what a unit holds depends on the files only.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError

# Small enough that even a modest corpus keeps many processes busy to the end, and large enough
# that a huge one does not fall into countless pieces.
_UNITS = 256
_SMALLEST_UNIT = 1_000_000
_LARGEST_UNIT = 32_000_000

# Longer documents are taken in parts of this size, so that memory stays bounded.
LONGEST_DOCUMENT = 8_000_000
# No sentence is longer; such a line is left out and counted.
LONGEST_LINE = 1_000_000

_CHUNK = 1 << 20


class Unit(NamedTuple):
    """The documents that begin in a byte range of a file.

    Attributes:
        path: the file.
        file: its number among the input files.
        begin, end: the range in bytes.
    """

    path: str
    file: int
    begin: int
    end: int


class TextDocument(NamedTuple):
    """A document, or a part of a long one.

    Attributes:
        file: number of its file.
        offset: byte at which it begins there. Both together number it in the corpus.
        sentences: its lines, without white space around them.
    """

    file: int
    offset: int
    sentences: list[str]


def split_into_units(paths: Sequence[str]) -> list[Unit]:
    """The units of some text files, in order; always the same ones for the same files."""
    sizes = [files.size(path) for path in paths]
    length = min(max(sum(sizes) // _UNITS, _SMALLEST_UNIT), _LARGEST_UNIT)
    return [
        Unit(path, file, begin, min(begin + length, size))
        for file, (path, size) in enumerate(zip(paths, sizes, strict=True))
        for begin in range(0, size, length)
    ]


def read_unit(unit: Unit, counts: Counter[str]) -> Iterator[TextDocument]:
    """Yields the documents of a unit that have any text.

    Args:
        unit: the unit.
        counts: `skipped_lines` is counted in it.

    Raises:
        InputError: there are bytes that are not UTF-8.
    """
    sentences: list[str] = []
    begin = taken = 0  # where the document at hand begins, and how much of it is held
    inside = unit.begin == 0  # whether the document at hand belongs to this unit
    for offset, line, size in _lines_from(unit):
        if not line.strip():
            if sentences:
                yield TextDocument(unit.file, begin, sentences)
                sentences, taken = [], 0
            if offset >= unit.end:
                return
            begin, inside = offset + size, True
        elif inside:
            if size > LONGEST_LINE:
                counts["skipped_lines"] += 1
                continue
            if sentences and taken + size > LONGEST_DOCUMENT:
                yield TextDocument(unit.file, begin, sentences)
                sentences, taken, begin = [], 0, offset
            if sentence := _decoded(line, offset, unit.path):
                sentences.append(sentence)
                taken += size
    if sentences:
        yield TextDocument(unit.file, begin, sentences)


def _lines_from(unit: Unit) -> Iterator[tuple[int, bytes, int]]:
    """Yields (offset, line, size) of the lines that begin in the unit or after it.

    Of a line beyond `LONGEST_LINE` only the beginning is kept in memory.
    """
    with files.open_file(unit.path, "rb") as file:
        # From the byte before, to see whether the unit begins with a line or inside one.
        start = max(unit.begin - 1, 0)
        file.seek(start)
        is_first = unit.begin > 0
        pending, cut = b"", 0  # the line at hand, and how many bytes of it were dropped
        while chunk := file.read(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                line = pending + line
                size = len(line) + cut + 1
                if not is_first:
                    yield start, _without_mark(line, start), size
                start, is_first, pending, cut = start + size, False, b"", 0
            pending += rest
            if len(pending) > LONGEST_LINE:
                pending, cut = pending[:LONGEST_LINE], cut + len(pending) - LONGEST_LINE
        if pending and not is_first:
            yield start, _without_mark(pending, start), len(pending) + cut


def _without_mark(line: bytes, offset: int) -> bytes:
    return line if offset else line.removeprefix(codecs.BOM_UTF8)


def _decoded(line: bytes, offset: int, path: str) -> str:
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: line {_line_number(path, offset)} is not UTF-8 ({error.reason}, byte "
            f"0x{line[error.start]:02x}); convert the file first, for example with iconv"
        ) from None


def _line_number(path: str, offset: int) -> int:
    number = 1
    with files.open_file(path, "rb") as file:
        while offset > 0 and (chunk := file.read(min(offset, _CHUNK))):
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number
