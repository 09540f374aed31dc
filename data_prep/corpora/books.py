"""Books as plain text files: one document each, however their lines are wrapped."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document, ReaderOptions
from data_prep.text_units import stripped

# Project Gutenberg's frame: "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***".
_FRAME_START = re.compile(r"\s*\*\*\*\s*START OF (THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
_FRAME_END = re.compile(r"\s*(\*\*\*\s*)?END OF (THE|THIS)? ?PROJECT GUTENBERG", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?:;\u2026\u2014-][\"'\u2019\u201d)]*$")
_ORNAMENT = re.compile(r"[\W_]*")

# Lines of hard-wrapped text are shorter; a paragraph on a single line exceeds this at some point.
_MAX_WRAPPED_LINE = 120


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[str]:
    """Yield the text files, each of which is a unit.

    Args:
        patterns: files, globs, or folders, whose `.txt` files are read.
        options: unused.

    Raises:
        InputError: If a pattern matches nothing, or a folder.
    """
    patterns = [
        os.path.join(glob.escape(pattern), "*.txt") if os.path.isdir(pattern) else pattern
        for pattern in patterns
    ]
    for path in files.expand_globs(patterns, "input_file"):
        if os.path.isdir(path):
            raise InputError(f"`input_file`={path}: is a folder; name it alone, or its files")
        yield path


def documents(path: str, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield a text file as one document.

    Raises:
        InputError: If the file is not UTF-8.
    """
    found = paragraphs(without_frame(list(map(stripped, files.read_lines(path)))))
    counts.input_bytes += files.size(path)
    counts.characters += sum(map(len, found))
    name = options.file_name(path)
    yield Document(name, name, found)


def without_frame(lines: list[str]) -> list[str]:
    """Return the lines between Project Gutenberg's header and footer, or all lines."""
    start = next((i + 1 for i, line in enumerate(lines) if _FRAME_START.match(line)), 0)
    ends = (i for i, line in enumerate(lines) if i >= start and _FRAME_END.match(line))
    return lines[start : next(ends, len(lines))]


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
    """Return the words of each paragraph.

    Args:
        lines: the lines of a text.
        ends: `ends(line, next_line)` returns whether a paragraph ends between two lines; one also
            ends at a blank line.
    """
    found: list[list[str]] = [[]]
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        found[-1].extend(line.split())
        if found[-1] and (not line.strip() or ends(line, next_line)):
            found.append([])
    return found


def _had_room(line: str, next_line: str, width: int) -> bool:
    """Return whether `line` ends although the next word would have fitted."""
    line, next_word = line.strip(), (next_line.split() or [""])[0]
    return bool(_SENTENCE_END.search(line)) and len(line) + 1 + len(next_word) < width
