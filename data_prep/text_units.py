"""A text corpus as units of work: byte ranges of its files, and the documents that begin in them.

A unit contains the documents whose preceding blank line begins inside its range; the first unit of
a file also contains the document at the start of the file. Any process can therefore read any unit
on its own, no document is split or read twice, and the units depend on the files only.

Where blank lines do not separate documents, a document can be a number of consecutive lines. A unit
then contains the lines that begin inside its range, and its last document may be shorter.

A compressed file can only be read from its start. It is one unit, which `in_parts` cuts into units
that carry their lines, where one process must not hold all of it.
"""

import codecs
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import regex

from albert_tf import files
from albert_tf.errors import InputError

logger = logging.getLogger(__name__)

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
# Approximate compression ratio.
TEXT_PER_COMPRESSED = 4

# White space, format and control characters, fillers, and the empty Braille pattern.
_INVISIBLE = regex.compile(r"[\s\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\u2800]*")


class TextUnit(NamedTuple):
    """The documents that begin in a byte range of a file.

    Attributes:
        file: its index among the input files.
        begin, end: the range in bytes of the file as it is stored; of a part of a compressed file,
            an estimate.
        lines: the lines of a part of a compressed file, as from `lines_from`.
    """

    path: str
    file: int
    begin: int
    end: int
    lines: tuple[tuple[int, bytes, int], ...] | None = None

    @property
    def is_compressed(self) -> bool:
        return bool(files.split_compression(self.path)[1])

    @property
    def text_end(self) -> float:
        """The end of the range in the text; infinite in a compressed file, which is not divided."""
        return math.inf if self.is_compressed else self.end


class TextDocument(NamedTuple):
    """A document, or a part of a long one.

    Attributes:
        file: index of its file; together with `offset`, identifies it in the corpus.
        offset: byte at which it begins in the file, once that is decompressed.
        sentences: its lines, without surrounding white space.
    """

    file: int
    offset: int
    sentences: list[str]


# What `extract_corpus` writes next to a corpus, which globs and folders pass over.
SIDE_ENDINGS = (".corpus.json", ".sources.tsv", ".decontaminated.tsv")


def text_files(patterns: Iterable[str]) -> list[str]:
    """As `files.expand_globs`, without what `extract_corpus` writes next to a corpus."""
    return files.expand_globs(patterns, "input_file", SIDE_ENDINGS)


def readable(
    paths: Iterable[str],
    check: Callable[[str], object],
    skip_bad_files: bool,
    bad_files: list[str],
) -> list[str]:
    """Return the files that can be read; add the others to `bad_files`, with a warning.

    Raises:
        InputError: If there are others, unless they are to be skipped.
    """
    good = []
    for path in paths:
        try:
            check(path)
            good.append(path)
        except InputError as bad:
            if not skip_bad_files:
                raise
            bad_files.append(path)
            logger.warning("left out: %s", bad)
    return good


def split_into_units(paths: Sequence[str]) -> list[TextUnit]:
    """Split text files into units, in order; deterministic for the same files."""
    sizes = [files.size(path) for path in paths]
    length = min(max(sum(sizes) // _UNITS, _MIN_UNIT_BYTES), _MAX_UNIT_BYTES)
    return list(units_of(paths, sizes, length))


def units_of(paths: Sequence[str], sizes: Sequence[int], length: int) -> Iterator[TextUnit]:
    """Yield the units of files in order, of at most `length` bytes where a file can be split."""
    for file, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        whole = TextUnit(path, file, 0, size)
        if whole.is_compressed:
            yield whole
            continue
        for begin in range(0, size, length):
            yield whole._replace(begin=begin, end=min(begin + length, size))


def in_parts(unit: TextUnit, length: int, document_sentences: int = 0) -> Iterator[TextUnit]:
    """Yield the unit itself, or units with the lines of a compressed file.

    Args:
        length: bytes of text in a part. It ends at the next blank line, if one follows soon.
        document_sentences: as for `read_unit`; if it is not 0, a part ends at any line.
    """
    if not unit.is_compressed:
        yield unit
        return
    lines: list[tuple[int, bytes, int]] = []
    first = 0  # where the part begins in the text
    for offset, line, size in lines_from(unit):
        text = offset - first
        if text >= length and (
            document_sentences or is_blank(line) or text >= length + MAX_DOCUMENT_BYTES
        ):
            end = min(unit.begin + text // TEXT_PER_COMPRESSED, unit.end)
            yield unit._replace(end=end, lines=tuple(lines))
            unit, first, lines = unit._replace(begin=end), offset, []
        lines.append((offset, line, size))
    yield unit._replace(lines=tuple(lines))


def read_unit(
    unit: TextUnit, counts: Counter[str], document_sentences: int = 0
) -> Iterator[TextDocument]:
    """Yield the documents of a unit that contain text.

    Args:
        counts: `skipped_lines` is added to it, and of a compressed file `decompressed_bytes`.
        document_sentences: number of lines of a document, blank ones not counted; 0: documents are
            separated by blank lines.

    Raises:
        InputError: If the file is not UTF-8.
    """
    if document_sentences:
        yield from _read_lines(unit, counts, document_sentences)
        return
    sentences: list[str] = []
    begin = collected = 0  # where the current document begins, and its bytes in `sentences`
    # Whether the current document belongs to this unit.
    inside = unit.begin == 0 or unit.lines is not None
    end = unit.text_end
    offset = size = 0
    for offset, line, size in lines_from(unit):
        if not (inside or offset < end):
            return
        is_read = inside and size <= MAX_LINE_BYTES
        sentence = decoded(line, offset, unit.path) if is_read else ""
        if not sentence and (is_read or is_blank(line)):
            if sentences:
                yield TextDocument(unit.file, begin, sentences)
                sentences, collected = [], 0
            if offset >= end:
                return
            begin, inside = offset + size, True
        elif inside:
            if not is_read:
                counts["skipped_lines"] += 1
                continue
            if sentences and collected + size > MAX_DOCUMENT_BYTES:
                yield TextDocument(unit.file, begin, sentences)
                sentences, collected, begin = [], 0, offset
            sentences.append(sentence)
            collected += size
    if sentences:
        yield TextDocument(unit.file, begin, sentences)
    if unit.is_compressed:
        counts["decompressed_bytes"] += offset + size


def _read_lines(
    unit: TextUnit, counts: Counter[str], document_sentences: int
) -> Iterator[TextDocument]:
    sentences: list[str] = []
    begin = offset = size = 0
    end = unit.text_end
    for offset, line, size in lines_from(unit):
        if offset >= end:
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
    if unit.is_compressed:
        counts["decompressed_bytes"] += offset + size


def lines_from(unit: TextUnit) -> Iterator[tuple[int, bytes, int]]:
    """Yield (offset, line, size) of the lines that begin in the unit or after it.

    Only the beginning of a line longer than `MAX_LINE_BYTES` is kept in memory.
    """
    if unit.lines is not None:
        yield from unit.lines
        return
    # Start one byte early to see whether the unit begins at a line start or inside a line.
    start = max(unit.begin - 1, 0)
    with files.open_lines(unit.path, start) as file:
        is_first = unit.begin > 0
        while line := file.readline(MAX_LINE_BYTES):
            size, end = len(line), line[-1:]
            while end != b"\n" and (rest := file.readline(MAX_LINE_BYTES)):
                size, end = size + len(rest), rest[-1:]
            if not is_first:
                text = line if start else line.removeprefix(codecs.BOM_UTF8)
                yield start, text.removesuffix(b"\n"), size
            start, is_first = start + size, False


def stripped(line: str) -> str:
    """Return a line without surrounding white space; "" if no character of it can be seen."""
    text = line.strip()
    # Most lines begin with a visible character of ASCII.
    return text if " " < text[:1] < "\x7f" or not _INVISIBLE.fullmatch(text) else ""


def is_blank(line: bytes) -> bool:
    """Return whether no character of a line of UTF-8 can be seen, such as U+200B or U+FEFF."""
    rest = line.strip()
    return not (b" " < rest[:1] < b"\x7f" or stripped(rest.decode(errors="replace")))


def decoded(line: bytes, offset: int, path: str) -> str:
    """Return a line of a file as text, as `stripped` does.

    Raises:
        InputError: If it is not UTF-8.
    """
    try:
        return stripped(line.decode())
    except UnicodeDecodeError as error:
        raise files.not_utf8(path, line_number(path, offset), error) from None


def line_number(path: str, offset: int) -> int:
    """Return the number, from 1, of the line of a file that begins at an offset in bytes."""
    number = 1
    with files.open_lines(path) as file:
        while offset > 0 and (chunk := file.read(min(offset, _CHUNK_BYTES))):
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number
