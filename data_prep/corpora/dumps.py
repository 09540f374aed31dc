"""Dumps of wikis (`pages-articles` XML, plain or bzip2) as units of work, and the pages in them.

A dump in several bzip2 streams, such as a `multistream` one, or a plain XML file, is read in byte
ranges, each by the process that works on it. A dump in one stream can only be decompressed from its
start; this process does that, and hands out the pages as XML.

A page belongs to the unit in which its `<page>` begins. What is damaged is left out and told of.
"""

from __future__ import annotations

import bz2
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import Counts
from data_prep.corpora.wikitext import Site

_FEWEST_UNITS = 64  # of one file, as long as they are not too small
_SMALLEST_RANGE, _LARGEST_RANGE = 250_000, 2_000_000  # bytes of a bzip2 file
_XML_PER_BZ2 = 4
_XML_PER_UNIT = 1_000_000  # bytes of pages handed out at a time
_CHUNK = 1 << 18
# MediaWiki takes texts up to 2 MiB; beyond this, the end of a page is missing.
_LONGEST_PAGE = 20_000_000
_HEADER = 1 << 20
_FIRST_STREAM = 16_000_000

# "BZh", the size of blocks, and the mark of the first block (pi in BCD): the start of a stream.
_STREAM_START = re.compile(rb"BZh[1-9]\x31\x41\x59\x26\x53\x59")
_STREAM_START_BYTES = 10

_TAIL = 100

_PAGE, _PAGE_END = b"<page>", b"</page>"


class Unit(NamedTuple):
    """Some of the pages of a dump.

    Attributes:
        path: the dump.
        site: the wiki.
        begin, end: a range of bytes of the dump.
        pages: XML of the pages, where they are not to be read from the range.
        counts: what was left out when `pages` were read.
    """

    path: str
    site: Site
    begin: int
    end: int
    pages: tuple[bytes, ...] | None = None
    counts: Counts | None = None


def split_dump(path: str) -> Iterator[Unit]:
    """Yields the units of a dump.

    Raises:
        InputError: it is neither XML nor bzip2, or not of a wiki.
    """
    size = files.size(path)
    with files.open_file(path, "rb") as file:
        start = file.read(_FIRST_STREAM)
    is_bz2 = start.startswith(b"BZh")
    site = _site(path, _beginning(start) if is_bz2 else start[:_HEADER])
    if is_bz2 and not _STREAM_START.search(start, 1):
        yield from _units_of_one_stream(path, site)
        return
    length = min(max(size // _FEWEST_UNITS, _SMALLEST_RANGE), _LARGEST_RANGE)
    length *= 1 if is_bz2 else _XML_PER_BZ2
    for begin in range(0, size, length):
        yield Unit(path, site, begin, min(begin + length, size))


def pages_of(unit: Unit, counts: Counts) -> Iterator[bytes]:
    """Yields the XML of each page of a unit; damage is counted and warned of."""
    if unit.pages is not None:
        counts += unit.counts
        yield from unit.pages
        return
    counts.input_bytes += unit.end - unit.begin
    with files.open_file(unit.path, "rb") as file:
        is_bz2 = file.read(3) == b"BZh"
        pieces = _decompressed(file, unit, counts) if is_bz2 else _plain(file, unit)
        yield from _split_pages(pieces, unit, counts)


def _beginning(compressed: bytes) -> bytes:
    """The start of what is compressed, as far as it is whole."""
    decompressor, found = bz2.BZ2Decompressor(), b""
    try:
        for begin in range(0, len(compressed), _CHUNK):
            found += decompressor.decompress(compressed[begin : begin + _CHUNK])
            if decompressor.eof or len(found) > _HEADER:
                break
    except OSError:
        pass
    return found


def _site(path: str, header: bytes) -> Site:
    if not re.match(rb"(\xef\xbb\xbf)?\s*<(\?xml|mediawiki|page)\b", header):
        what = "is not the XML of a wiki dump, plain or .bz2"
        if not header:
            what = "is damaged at its start" if files.size(path) else "is empty"
        raise InputError(
            f"--input_file: {path} {what}; right is a file such as "
            "enwiki-latest-pages-articles.xml.bz2"
        )
    info = header[: header.find(b"</siteinfo>") + 1].decode("utf-8", "replace")
    name = re.search(r"<dbname>\s*([^<\s]+)", info)
    prefixes = re.findall(r'<namespace key="(?:6|14)"[^>]*>([^<]+)<', info)
    hidden = Site().hidden.union(prefix.strip().lower() for prefix in prefixes)
    return Site(name[1] if name else Site().name, hidden)


class _Piece(NamedTuple):
    """Some bytes of XML.

    Attributes:
        xml: the bytes.
        inside: whether a page that begins in them belongs to the unit.
    """

    xml: bytes
    inside: bool


_END_OF_FILE = _Piece(b"", False)


def _plain(file: IO[bytes], unit: Unit) -> Iterator[_Piece]:
    file.seek(unit.begin)
    position = unit.begin
    while xml := file.read(min(_CHUNK, unit.end - position) if position < unit.end else _CHUNK):
        yield _Piece(xml, position < unit.end)
        position += len(xml)
    yield _END_OF_FILE


def _decompressed(file: IO[bytes], unit: Unit, counts: Counts) -> Iterator[_Piece]:
    """The streams that begin in the unit, and then those after it."""
    stream = _next_stream(file, unit.begin, unit.end)
    while stream is not None:
        file.seek(stream)
        position = stream
        decompressor = bz2.BZ2Decompressor()
        try:
            while chunk := file.read(_CHUNK):
                position += len(chunk)
                yield _Piece(decompressor.decompress(chunk), stream < unit.end)
                while decompressor.eof:
                    rest = decompressor.unused_data
                    stream = position - len(rest)
                    decompressor = bz2.BZ2Decompressor()
                    if not rest:
                        break
                    yield _Piece(decompressor.decompress(rest), stream < unit.end)
            yield _END_OF_FILE
            return
        except OSError:
            counts.warn(
                f"{unit.path} is damaged in the bzip2 stream that begins at byte {stream}; "
                "the pages outside of the damage are used"
            )
            # XML cannot hold this byte: what stands on both sides will not pass for one page.
            yield _Piece(b"\0", stream < unit.end)
            stream = _next_stream(file, stream + 1, unit.end)


def _next_stream(file: IO[bytes], begin: int, end: int) -> int | None:
    """Where the first stream that begins in a range does."""
    file.seek(begin)
    position, before = begin, b""
    while position < end + _STREAM_START_BYTES and (chunk := file.read(_CHUNK)):
        if found := _STREAM_START.search(before + chunk):
            start = position - len(before) + found.start()
            return start if start < end else None
        before = (before + chunk)[1 - _STREAM_START_BYTES :]
        position += len(chunk)
    return None


def _split_pages(pieces: Iterator[_Piece], unit: Unit, counts: Counts) -> Iterator[bytes]:
    """Yields the pages that begin in pieces inside the unit."""
    xml, inside = b"", 0  # what is left to look at, and how much of it is inside
    tail = b""
    for piece in pieces:
        if piece is _END_OF_FILE:
            if xml.startswith(_PAGE) and inside > 0:
                counts.skipped += 1
            # Too little was seen to tell where a unit begins inside of this very mark.
            if b"</mediawiki>" not in tail and len(tail) == _TAIL:
                counts.warn(f"{unit.path} is cut off; the pages before its end are used")
            return
        if piece.inside:
            inside = len(xml) + len(piece.xml)
        xml += piece.xml
        tail = (tail + piece.xml)[-_TAIL:]
        at = 0
        while (start := xml.find(_PAGE, at)) >= 0 and start < inside:
            end = xml.find(_PAGE_END, start)
            if end < 0:
                break
            # Where a page has no end, because of damage, another one begins in it.
            last = xml.rfind(_PAGE, start, end)
            if last > start:
                counts.skipped += 1
            if last < inside:
                yield xml[last : end + len(_PAGE_END)]
            at = end + len(_PAGE_END)
        if start < 0:
            at = max(at, len(xml) - len(_PAGE) + 1)  # the last bytes may be the start of a page
        elif len(xml) - start > _LONGEST_PAGE:
            counts.skipped += 1
            at = start + len(_PAGE)
        else:
            at = start
        xml, inside = xml[at:], inside - at
        if inside <= 0 and not piece.inside:
            return


def _units_of_one_stream(path: str, site: Site) -> Iterator[Unit]:
    """Units with their pages, decompressed here."""
    whole = Unit(path, site, 0, files.size(path))
    counts = Counts()
    pages: list[bytes] = []
    begin = size = 0
    with files.open_file(path, "rb") as file:
        for page in _split_pages(_decompressed(file, whole, counts), whole, counts):
            pages.append(page)
            size += len(page)
            if size >= _XML_PER_UNIT:
                read = file.tell() - begin
                yield Unit(path, site, 0, 0, tuple(pages), Counts(input_bytes=read))
                pages, size, begin = [], 0, begin + read
    yield Unit(path, site, 0, 0, tuple(pages), counts + Counts(input_bytes=whole.end - begin))
