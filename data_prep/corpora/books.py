"""Books as plain text files: a document each, however their lines are wrapped."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from albert_tf import files
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.text_units import stripped

# Project Gutenberg's frame: "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", in older files
# "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*".
_MARK = re.compile(
    r"\s*(?:(?P<start>\*{2,}\s*START OF (?:(?:THE|THIS) )?PROJECT GUTENBERG)|"
    r"(?P<license_end>\*+\s*END\W+THE SMALL PRINT)|"
    r"(?P<license>\*+\s*START\W+(?:THE SMALL PRINT|FULL LICENSE))|"
    r"(?P<end>(?:\*+\s*)?(?:END OF|ENDE (?:DES|VON)|ENDE|FIN (?:DE|DU)|FINE DEL|EINDE VAN)"
    r"(?: (?:THE|THIS|DIESES|HET))? ?PROJECT GUTENBERG))",
    re.IGNORECASE,
)
_HEADER = re.compile(r"\W*(?:The )?Project Gutenberg(?:'s)? E-?(?:book|text)\b", re.IGNORECASE)
_MARK_LINES = 5  # of a mark with a long title
_HEADER_LINES = 50  # at most
_TITLE_LINES = 8  # of what may stand between two parts of a header; a book is longer
_SENTENCE_END = re.compile(r"[.!?:;\u2026\u2014-][\"'\u2019\u201d)]*$")
_ORNAMENT = re.compile(r"[\W_]*")

# Lines of hard-wrapped text are shorter; a paragraph on a single line exceeds this at some point.
_MAX_WRAPPED_LINE = 120


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[str]:
    """Yield the text files, of folders those that end in `.txt`, each of which is a unit."""
    yield from options.readable(find_files(patterns, ".txt"), files.check_utf8)


def documents(path: str, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield a text file as one document; several books of Project Gutenberg as one each."""
    lines = list(map(stripped, files.read_lines(path)))
    counts.input_bytes += files.size(path)
    name = options.file_name(path)
    left_out, number = sum(map(bool, lines)), 0
    for text in texts(lines):
        left_out -= sum(map(bool, text))
        if found := paragraphs(text):
            number += 1
            counts.characters += sum(map(len, found))
            yield Document(f"{name}:{number}" if number > 1 else name, name, found)
    if left_out:
        counts.left_out["lines of Project Gutenberg's headers and licenses"] += left_out


def texts(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines between each of Project Gutenberg's headers and its footer, or all lines."""
    start: int | None = 0
    has_header = False
    for number, mark in _marks(lines):
        if start is not None and (
            mark["end"] or has_header and sum(map(bool, lines[start:number])) > _TITLE_LINES
        ):
            last = range(number - 1, max(start, number - _HEADER_LINES), -1)
            yield lines[start : next((n for n in last if _HEADER.match(lines[n])), number)]
        start = None
        if mark["license_end"]:
            has_header, start = True, number + 1
        elif mark["start"]:
            has_header = True
            title = [lines[number][mark.end() :] or "-", *lines[number + 1 : number + _MARK_LINES]]
            rest = enumerate(itertools.takewhile(bool, title))
            start = number + 1 + next((n for n, part in rest if "**" in part), 0)
    if start is not None:
        yield lines[start:]


def _marks(lines: list[str]) -> list[tuple[int, re.Match[str]]]:
    """Return the marks and their lines; of the ends of a book, which may quote one, the last.

    One with asterisks is preferred. The line of the other kind that precedes it belongs to it.
    """
    found: list[tuple[int, re.Match[str]]] = []  # from the last
    has_stars = False
    for number in reversed(range(len(lines))):
        mark = _MARK.match(lines[number])
        if not mark:
            continue
        is_starred = mark[0].lstrip().startswith("*")
        if not (mark["end"] and found and found[-1][1]["end"]):
            found.append((number, mark))
            has_stars = is_starred
        elif is_starred > has_stars or sum(map(bool, lines[number : found[-1][0]])) <= _MARK_LINES:
            found[-1] = (number, mark)
            has_stars |= is_starred
    return found[::-1]


def paragraphs(lines: list[str]) -> list[str]:
    """Return the paragraphs of a text, each as one line, without rows of ornaments.

    Books come in three layouts, which differ in their lines: one paragraph per line; hard-wrapped
    with blank lines between paragraphs; hard-wrapped without blank lines, where a paragraph ends
    at a line that had room for the next word.
    """
    lengths = sorted(len(line.strip()) for line in lines if line.strip())
    if not lengths:
        return []
    long_lines = sum(length > _MAX_WRAPPED_LINE for length in lengths)
    blank_lines = len(lines) - len(lengths)
    if long_lines > 0.05 * len(lengths):
        found = [line.split() for line in lines]
    elif blank_lines > 0.03 * len(lengths):
        found = _joined(lines, ends=lambda line, next_line: False)
    else:
        width = lengths[int(0.95 * len(lengths))]
        found = _joined(lines, ends=lambda line, next_line: _had_room(line, next_line, width))
    joined = (" ".join(words) for words in found)
    return [paragraph for paragraph in joined if not _ORNAMENT.fullmatch(paragraph)]


def _joined(lines: list[str], ends: Callable[[str, str], bool]) -> list[list[str]]:
    """Return the words of each paragraph, which ends between two lines or at a blank one."""
    found: list[list[str]] = [[]]
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        found[-1].extend(line.split())
        if found[-1] and (not line.strip() or ends(line, next_line)):
            found.append([])
    return found


def _had_room(line: str, next_line: str, width: int) -> bool:
    line, next_word = line.strip(), (next_line.split() or [""])[0]
    return bool(_SENTENCE_END.search(line)) and len(line) + 1 + len(next_word) < width
