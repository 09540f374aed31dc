"""Tidies the lines of an article: drops what is left of broken markup, and closes gaps."""

import itertools
import re
from collections.abc import Sequence

from data_prep.corpora.tags import SHOWN
from data_prep.corpora.templates.expansion import ANY_GAP, GAP, UNKNOWN

# Text removed from inside brackets leaves separators: "(; 1 May 1900)", "( , born)".
_BRACKET_START = re.compile(r"(?<=[(\[（【])(?:[\s;,:、；，：]+|[\s–—-]+(?=\s))+")
_BRACKET_END = re.compile(r"[\s;,:、；，]+(?=[)\]）])")
_UNKNOWN_IN_BRACKETS = re.compile(rf"\s?\([^()]*{UNKNOWN}[^()]*\)")
_EMPTY_BRACKETS = re.compile(r"\s?(?:\(\s*(?:or|and|;|,)?\s*\)|\[\s*\]|（\s*）|【\s*】)")
_REPEATED_SEPARATOR = re.compile(r"([:;,])(?:\s*[;,])+(?=\s|$)|[;,]\s*(?=\.(?:\s|$))")
_SPACE_BEFORE_GAP = re.compile(rf"\s+(?:{ANY_GAP})+(?=\s*[.,;:!?)\]])")
_GAPS = re.compile(ANY_GAP)
_SPACE_BEFORE = re.compile(r"(?<=\w)\s+(?=[,.](?:\s|$))|\s+(?=[)\]）])")

# What is left of tables, templates and images that are not closed. Prose may contain the same
# characters: "|-3| is 3", "{1, {2, 3}}", "width = 4", and the name of a band, "!!!".
_START = rf"(?:{ANY_GAP}|[\s\x1f:*])*"
_TABLE_MARK = re.compile(_START + r"(?:\{\||\|\}|\|\+|\|-+\s*(?:$|[\w-]+\s*=))")
_TABLE_LINE = re.compile(_START + r"[|!]")
_CELL_OR_PARAMETER = re.compile(_START + r"\|(?:\s|\s*$|[\w .-]+=[^|]*$)")
_ATTRIBUTE = (
    r"(?:style|class|colspan|rowspan|align|bgcolor|width|valign|scope)\s*=\s*"
    r"(?:\"[^\"]*\"|'[^']*'|[\w%#.-]+)\s*"
)
_ATTRIBUTES = re.compile(
    rf"\b(?:{_ATTRIBUTE}){{1,20}}\||^\s*(?:{_ATTRIBUTE})+$(?<=[\"'])|^\s*!\s*{_ATTRIBUTE}", re.I
)
_TAG_END = re.compile(r"\b(?:style|class|id|title)\s*=\s*(?:\"[^\"]*\"|'[^']*')\s*/?>", re.I)
_IMAGE = re.compile(
    r"\s*(?:(?:thumb|left|right|center|\d+px)\||"
    r"[^\W\d_]+:[^|]+\.(?:jpe?g|png|svg|gif|tiff?|webp|og[agv])\s*(?:\||$))",
    re.I,
)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_BRACE = re.compile(r"[{}]")


def without_broken_markup(lines: Sequence[str]) -> tuple[list[str], int]:
    """Replace the lines that are left of markup that is not closed by "".

    Returns:
        The lines, and how many were replaced.
    """
    if not any(map(_may_be_markup, lines)):
        return list(lines), 0
    kept: list[str] = []
    dropped = 0
    # The lines of a table follow one another.
    for _, block in itertools.groupby(lines, lambda line: not line.strip()):
        block_lines = list(block)
        in_table = any(map(_TABLE_MARK.match, block_lines))
        for line in block_lines:
            is_broken = _may_be_markup(line) and _is_broken(line, in_table)
            kept.append("" if is_broken else line)
            dropped += is_broken
    return kept, dropped


def _may_be_markup(line: str) -> bool:
    # Few lines contain any of these characters, and searching for them is fast.
    return (
        "|" in line
        or "=" in line
        or "{" in line
        or "}" in line
        or ":" in line[:20]
        or line.lstrip()[:1] == "!"
    )


def _is_broken(line: str, in_table: bool) -> bool:
    if in_table and _TABLE_LINE.match(line) or _TABLE_MARK.match(line):
        return True
    return bool(
        ("{{" in line or "}}" in line)
        and _has_template(line)
        or "|" in line
        and _CELL_OR_PARAMETER.match(line)
        or _IMAGE.match(line)
        or "=" in line
        and (_ATTRIBUTES.search(line) or _TAG_END.search(line))
    )


def _has_template(line: str) -> bool:
    """Return whether a line contains part of a template, and not only sets of sets."""
    if _TEMPLATE.search(line):
        return True
    depth = 0
    for brace in _BRACE.findall(line):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return depth > 0


def clean_line(line: str) -> str:
    """Return a line without the traces of removed markup; "" for one that is not text."""
    line = " ".join(line.replace("[[", "").replace("]]", "").split())
    if UNKNOWN in line:
        line = _UNKNOWN_IN_BRACKETS.sub("", line).replace(UNKNOWN, "")
    if GAP in line:
        line = _GAPS.sub("", _SPACE_BEFORE_GAP.sub("", line))
        line = _REPEATED_SEPARATOR.sub(r"\1", line)
    if "(" in line or "[" in line or "（" in line or "【" in line:
        line = _BRACKET_START.sub("", line)
        line = _BRACKET_END.sub("", line)
        line = _EMPTY_BRACKETS.sub("", line)
    if any(mark in line for mark in (" ,", " .", " )", " ]", " ）")):
        line = _SPACE_BEFORE.sub("", line)
    line = " ".join(line.split())  # again: removed text leaves two spaces
    if not line.isprintable():
        line = line.translate(SHOWN)
    return line if any(character.isalpha() for character in line) else ""
