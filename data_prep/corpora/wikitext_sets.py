"""WikiText-2 and WikiText-103: Wikipedia articles as published for language modeling.

Not the markup of Wikipedia, which `wikitext` removes. A line is a heading (` = Title = `,
` = = Section = = `) or a paragraph, whose tokens are separated by spaces. A title begins an
article, which is a document. Hyphens, commas and points inside of words and numbers are marked
(`@-@`, `@,@`, `@.@`). The marks, and spaces next to punctuation, are removed.

Source: Merity et al., "Pointer Sentinel Mixture Models", 2016, section 4.
"""

import re
from collections.abc import Iterator, Sequence

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.corpora.text import byte_ranges
from data_prep.text_units import MAX_LINE_BYTES, TextUnit, decoded, lines_from

_HEADING = re.compile("((?:= )+)(.+?)((?: =)+)")
# What joins the tokens around it, the token before it, the token after it.
_JOINING = re.compile(" ?@([-,.])@ ?")
_CLOSING = re.compile(" ([.,;:!?%)\\]}’”]|n't\\b|'(?:s|m|d|re|ve|ll)\\b)")
_OPENING = re.compile("([(\\[{$£€‘“]) ")
_QUOTED = re.compile('" ([^"]*) "')


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[TextUnit]:
    """Yield byte ranges of files."""
    yield from byte_ranges(options.readable(find_files(patterns), files.check_utf8))


def documents(unit: TextUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield the articles whose titles are in a unit, named after their titles."""
    counts.input_bytes += unit.end - unit.begin
    source = options.file_name(unit.path)
    title = key = ""
    found: list[str] = []
    end = unit.text_end
    for offset, line, size in lines_from(unit):
        if offset >= end and not title:
            return
        if size > MAX_LINE_BYTES:
            counts.left_out["lines longer than a megabyte"] += 1
            continue
        text = decoded(line, offset, unit.path)
        level, heading = _heading(text)
        if level == 1:
            if found:
                yield Document(title, source, found, key)
            elif title:
                counts.left_out["articles without text"] += 1
            if offset >= end:
                return
            title, key, found = heading, f"{source}:{offset}", []
        elif text and not title and not unit.begin:
            raise InputError(
                f"{unit.path}: not WikiText, which begins with a title such as ` = Title = `"
            )
        elif text and title and (not level or options.keep_headings):
            found.append(heading if level else detokenized(text))
            counts.characters += len(found[-1])
            if "<unk>" in text:
                counts.warn(f"{unit.path}: has <unk> for rare words; use the raw files")
    if found:
        yield Document(title, source, found, key)


def _heading(line: str) -> tuple[int, str]:
    """Level, from 1, and text of a heading; 0 and "" for another line."""
    match = _HEADING.fullmatch(line)
    if match is None or len(match[1]) != len(match[3]):
        return 0, ""
    return len(match[1]) // 2, detokenized(match[2])


def detokenized(text: str) -> str:
    """`Zweibrücken @-@ 3 , the " Flying " one 's` -> `Zweibrücken-3, the "Flying" one's`."""
    text = _JOINING.sub(r"\1", text)
    text = _QUOTED.sub(r'"\1"', text)
    return _OPENING.sub(r"\1", _CLOSING.sub(r"\1", text))
