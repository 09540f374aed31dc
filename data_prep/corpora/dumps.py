"""Wiki dumps (`pages-articles` XML, plain or compressed) as units of work, and their pages.

A plain XML file, or a dump of several bzip2 streams such as a `multistream` one, is read in byte
ranges, each by the process that works on it. A dump of one stream can only be decompressed from its
start; this process does so, and distributes the pages as XML.

A page belongs to the unit in which its `<page>` begins. Damaged pages are left out and reported.
"""

import bz2
import contextlib
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts
from data_prep.corpora.wikitext import Site

_MIN_UNITS = 64  # of one file, unless they would be too small
_MIN_RANGE_BYTES, _MAX_RANGE_BYTES = 250_000, 2_000_000  # of a bzip2 file
_XML_PER_BZ2 = 4  # approximate compression ratio
_XML_BYTES_PER_UNIT = 1_000_000  # for units that contain their pages
_CHUNK_BYTES = 1 << 18
_PART_BYTES = 4 << 20
# MediaWiki accepts texts of up to 2 MiB; in a longer page, the end tag is missing.
_MAX_PAGE_BYTES = 20_000_000
_HEADER_BYTES = 1 << 20
_MAX_FIRST_STREAM_BYTES = 16_000_000

# The start of a stream: "BZh", the block size, and the magic number of a block (pi in BCD).
_STREAM_START = re.compile(rb"BZh[1-9]\x31\x41\x59\x26\x53\x59")
_STREAM_START_BYTES = 10

_TAIL_BYTES = 100

_PAGE, _PAGE_END = b"<page>", b"</page>"


class DumpUnit(NamedTuple):
    """Some of the pages of a dump.

    Attributes:
        begin, end: the byte range to read.
        pages: XML of the pages, instead of a range.
        counts: what was read and left out when `pages` were read.
    """

    path: str
    site: Site
    begin: int
    end: int
    pages: tuple[bytes, ...] | None = None
    counts: Counts | None = None


def split_dump(path: str) -> Iterator[DumpUnit]:
    """Yield the units of a dump.

    Raises:
        InputError: If it is not the dump of a wiki as XML, plain or compressed.
    """
    size = files.size(path)
    is_stream = files.split_compression(path)[1] not in ("", ".bz2")
    with files.open_decompressed(path) if is_stream else files.open_file(path, "rb") as file:
        start = b"" if is_stream else file.read(_MAX_FIRST_STREAM_BYTES)
        for piece in _read(file, Counts()) if is_stream else ():
            start += piece.xml
            if len(start) >= _HEADER_BYTES:
                break
    is_bz2 = start.startswith(b"BZh")
    site = _site(path, _beginning(start) if is_bz2 else start[:_HEADER_BYTES])
    if is_stream or is_bz2 and not _STREAM_START.search(start, 1):
        yield from _units_of_one_stream(path, site)
        return
    length = min(max(size // _MIN_UNITS, _MIN_RANGE_BYTES), _MAX_RANGE_BYTES)
    length *= 1 if is_bz2 else _XML_PER_BZ2
    for begin in range(0, size, length):
        yield DumpUnit(path, site, begin, min(begin + length, size))


def pages_of(unit: DumpUnit, counts: Counts) -> Iterator[bytes]:
    """Yield the XML of each page of a unit; add counts and warnings of damage to `counts`."""
    if unit.pages is not None:
        counts += unit.counts or Counts()
        yield from unit.pages
        return
    counts.input_bytes += unit.end - unit.begin
    with files.open_file(unit.path, "rb") as file:
        is_bz2 = file.read(3) == b"BZh"
        pieces = _decompressed(file, unit, counts) if is_bz2 else _plain(file, unit)
        yield from _split_pages(pieces, unit, counts)


def _beginning(compressed: bytes) -> bytes:
    """Decompress the beginning of a stream, as far as it is intact."""
    decompressor, found = bz2.BZ2Decompressor(), b""
    with contextlib.suppress(OSError):
        for begin in range(0, len(compressed), _CHUNK_BYTES):
            chunk = compressed[begin : begin + _CHUNK_BYTES]
            found += decompressor.decompress(chunk, _HEADER_BYTES)
            if decompressor.eof or len(found) >= _HEADER_BYTES:
                break
    return found


def _site(path: str, header: bytes) -> Site:
    if not re.match(rb"(\xef\xbb\xbf)?\s*<(\?xml|mediawiki|page)\b", header):
        problem = "not the XML of a wiki dump, plain or .bz2"
        if not header:
            problem = "damaged at its start" if files.size(path) else "empty"
        if header.startswith(b"7z\xbc\xaf"):
            problem = "a 7z archive; unpack it (7z x) or download the .bz2"
        if header.startswith(b"\x1f\x8b"):
            problem = "compressed by gzip; add .gz to its name"
        raise InputError(
            f"`input_file`={path}: {problem}; must be a file such as "
            "enwiki-latest-pages-articles.xml.bz2"
        )
    info = header[: header.find(b"</siteinfo>") + 1].decode("utf-8", "replace")
    name = re.search(r"<dbname>\s*([^<\s]+)", info)
    namespaces = re.findall(r'<namespace key="(-?\d+)"[^>]*>([^<]+)</', info)
    prefixes = {key: name.strip().lower() for key, name in namespaces}
    language = re.search(r'<mediawiki\b[^>]*\bxml:lang="([\w-]+)"', info) or re.search(
        r"<dbname>\s*(\w+)wiki\s*<", info
    )
    return Site(
        name[1] if name else Site().name,
        Site().hidden | {prefixes.get("6", "file"), prefixes.get("14", "category")},
        language[1].replace("_", "-") if language else "",
        prefixes.get("10", Site().templates),
        Site().media | {prefixes.get("-2", "media")},
    )


class _Piece(NamedTuple):
    """Consecutive bytes of XML, and whether pages that begin in them belong to the unit."""

    xml: bytes
    inside: bool


_END_OF_FILE = _Piece(b"", False)


def _plain(file: IO[bytes], unit: DumpUnit) -> Iterator[_Piece]:
    file.seek(unit.begin)
    position = unit.begin
    while xml := file.read(
        min(_CHUNK_BYTES, unit.end - position) if position < unit.end else _CHUNK_BYTES
    ):
        yield _Piece(xml, position < unit.end)
        position += len(xml)
    yield _END_OF_FILE


def _decompressed(file: IO[bytes], unit: DumpUnit, counts: Counts) -> Iterator[_Piece]:
    stream = _next_stream(file, unit.begin, unit.end)
    while stream is not None:
        file.seek(stream)
        position = stream
        decompressor = bz2.BZ2Decompressor()
        try:
            while chunk := file.read(_CHUNK_BYTES):
                position += len(chunk)
                for xml in _parts(decompressor, chunk):
                    yield _Piece(xml, stream < unit.end)
                while decompressor.eof:
                    rest = decompressor.unused_data
                    stream = position - len(rest)
                    decompressor = bz2.BZ2Decompressor()
                    if not rest:
                        break
                    for xml in _parts(decompressor, rest):
                        yield _Piece(xml, stream < unit.end)
            yield _END_OF_FILE
            return
        except OSError:
            counts.warn(
                f"{unit.path} is damaged in the bzip2 stream that begins at byte {stream}; "
                "the other pages are used"
            )
            # XML cannot contain this byte: text on both sides will not be taken for one page.
            yield _Piece(b"\0", stream < unit.end)
            stream = _next_stream(file, stream + 1, unit.end)


def _read(file: IO[bytes], counts: Counts) -> Iterator[_Piece]:
    xml = b""
    try:
        while xml := file.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # buffered
            yield _Piece(xml, True)
    except InputError as error:
        if not xml:
            raise
        counts.warn(f"{error}; the pages before its end are used")
    yield _END_OF_FILE


def _parts(decompressor: bz2.BZ2Decompressor, chunk: bytes) -> Iterator[bytes]:
    """Decompress a chunk, of which a few bytes may stand for gigabytes, in parts."""
    yield decompressor.decompress(chunk, _PART_BYTES)
    while not (decompressor.eof or decompressor.needs_input):
        yield decompressor.decompress(b"", _PART_BYTES)


def _next_stream(file: IO[bytes], begin: int, end: int) -> int | None:
    file.seek(begin)
    position, before = begin, b""
    while position < end + _STREAM_START_BYTES and (chunk := file.read(_CHUNK_BYTES)):
        if found := _STREAM_START.search(before + chunk):
            start = position - len(before) + found.start()
            return start if start < end else None
        before = (before + chunk)[1 - _STREAM_START_BYTES :]
        position += len(chunk)
    return None


def _split_pages(pieces: Iterator[_Piece], unit: DumpUnit, counts: Counts) -> Iterator[bytes]:
    xml, inside = b"", 0  # what is left to search, and how much of it is inside the unit
    tail = b""
    for piece in pieces:
        if piece is _END_OF_FILE:
            if xml.startswith(_PAGE) and inside > 0:
                counts.skipped += 1
            # A unit that begins inside this end tag has read too little to tell.
            if b"</mediawiki>" not in tail and len(tail) == _TAIL_BYTES:
                counts.warn(f"{unit.path} is cut off; the pages before its end are used")
            return
        if piece.inside:
            inside = len(xml) + len(piece.xml)
        xml += piece.xml
        tail = (tail + piece.xml)[-_TAIL_BYTES:]
        position = 0
        while (start := xml.find(_PAGE, position)) >= 0 and start < inside:
            end = xml.find(_PAGE_END, start)
            if end < 0:
                break
            # If damage has removed the end of a page, another page begins inside it.
            last = xml.rfind(_PAGE, start, end)
            if last > start:
                counts.skipped += 1
            if last < inside:
                yield xml[last : end + len(_PAGE_END)]
            position = end + len(_PAGE_END)
        if start < 0:
            # The last bytes may be the beginning of a `<page>`.
            position = max(position, len(xml) - len(_PAGE) + 1)
        elif len(xml) - start > _MAX_PAGE_BYTES:
            counts.skipped += 1
            position = start + len(_PAGE)
        else:
            position = start
        xml, inside = xml[position:], inside - position
        if inside <= 0 and not piece.inside:
            return


def _units_of_one_stream(path: str, site: Site) -> Iterator[DumpUnit]:
    whole = DumpUnit(path, site, 0, files.size(path))
    counts = Counts()
    pages: list[bytes] = []
    begin = size = 0
    is_bz2 = files.split_compression(path)[1] in ("", ".bz2")
    with files.open_file(path, "rb") if is_bz2 else files.open_decompressed(path) as file:
        pieces = _decompressed(file, whole, counts) if is_bz2 else _read(file, counts)
        for page in _split_pages(pieces, whole, counts):
            pages.append(page)
            size += len(page)
            if size >= _XML_BYTES_PER_UNIT:
                read = min(size // _XML_PER_BZ2, whole.end - begin)
                yield DumpUnit(path, site, 0, 0, tuple(pages), Counts(input_bytes=read))
                pages, size, begin = [], 0, begin + read
    counts.input_bytes += whole.end - begin
    yield DumpUnit(path, site, 0, 0, tuple(pages), counts)
