"""Prose from docstrings and README files (reStructuredText, Markdown, NumPy and Google style).

Kept are sentences and the descriptions of parameters, that is, what could be read aloud. Code,
doctests, tables, headings, signatures and markup are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s*(```|~~~)")
_DIRECTIVE = re.compile(r"\s*\.\.(\s+(?P<name>[\w:+-]+?)::|\s|$)")
_PROSE_DIRECTIVES = frozenset(
    ["note", "warning", "seealso", "tip", "important", "hint", "attention", "caution", "danger"]
    + ["deprecated", "versionadded", "versionchanged", "versionremoved", "admonition", "topic"]
)
_RULE = re.compile(r"\s*([-=~^\"'`#*+_.:<>|]\s?)\1{2,}\s*$")  # heading underlines and rules
_TABLE_ROW = re.compile(r"\s*([|+].*[|+]|={2,}(\s+={2,})+|-{2,}(\s+-{2,})+)\s*$")
_DOCTEST = re.compile(r"\s*(>>>|\.\.\. |In \[\d+\]:|Out\[\d+\]:|\$ )")
_FIELD = re.compile(r":(\w[\w\s.*`,|\[\]]*):(\s+|$)")  # :param x: ...
_BULLET = re.compile(r"([-*+•]|\(?\w{1,2}[.)]|\[\d+\])\s+(?=\S)")
# "name (type, optional): what it is", "`name`: what it is", "name -- what it is"
_ENTRY = re.compile(r"[`*]{0,2}[\w.]+(, [\w.*]+){0,3}[`*]{0,2}\s*(\([^)]*\))?\s?(:|--)\s+(?=\S)")
# "x : array_like, shape (n,)" of the NumPy style: a heading for the lines indented below it
_NUMPY_ENTRY = re.compile(r"[\w*.,\s{}'\"`-]+ : .*")

_INLINE = [
    (re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]*>"), ""),  # HTML
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),  # Markdown images
    (re.compile(r"\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])"), r"\1"),  # Markdown links
    (re.compile(r":[\w:+-]+:`~?(?:[^`<]*\.)?([^`<.]+)(?:<[^`>]*>)?`"), r"\1"),  # :class:`~a.B`
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}"), r"\1"),  # `text <target>`_
    (re.compile(r"`+~?\.?([^`]*)`+_{0,2}"), r"\1"),
    (re.compile(r"(?<!\w)(\*\*|\*)(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"\s*\[[\w#*-]+\]_"), ""),  # footnote marks
    (re.compile(r"\|[\w\s-]+\|_{0,2}"), ""),  # substitutions
    (re.compile(r"\\([*_`|\\])"), r"\1"),
    (re.compile(r"::(?=\s|$)"), ":"),
]

_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_CODE = re.compile(r"[\w.]+\([^)\s]*\)?|\w+_\w+|\w+\.\w+\.?\w*|[{}\[\]<>=|\\^$#@~]|\w+::\w+")
_FUNCTION_WORD = re.compile(
    r"\b(an?|the|of|to|in|is|are|be|by|for|with|from|that|this|it|as|on|or|and|not|if|when|can"
    r"|will|which|at|used?|has|have|was|were|no|you|your|its|their)\b",
    re.IGNORECASE,
)

_UNTIL_BLANK_LINE = -1  # as an indent: all lines are indented more


def prose_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of prose in a docstring or README, each as one line without markup."""
    for lines in _blocks(text.expandtabs().splitlines()):
        paragraph = _plain(" ".join(line.strip() for line in lines))
        if _is_prose(paragraph):
            yield paragraph


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each paragraph, without code, tables and headings."""
    block: list[str] = []
    code_indent: int | None = None  # lines indented more than this are code
    fenced = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
            yield block
            block = []
            continue
        if fenced:
            continue
        if not line.strip():
            yield block
            block = []
            if code_indent == _UNTIL_BLANK_LINE:
                code_indent = None
            continue
        indent = len(line) - len(line.lstrip())
        if code_indent is not None:
            if indent > code_indent:
                continue
            code_indent = None
        next_line = lines[number + 1] if number + 1 < len(lines) else ""
        if directive := _DIRECTIVE.match(line):
            yield block
            block = []
            if directive["name"] in _PROSE_DIRECTIVES:
                rest = line[directive.end() :]
                block = [] if re.fullmatch(r"\s*v?[\d.]*\s*", rest) else [rest]
            else:
                code_indent = indent  # the content of a figure, a code block, a comment
        elif _DOCTEST.match(line):
            yield block
            block = []
            code_indent = _UNTIL_BLANK_LINE  # the printed output
        elif _RULE.match(line) or _TABLE_ROW.match(line):
            yield block[:-1]  # the line above a rule is a heading
            block = []
        elif _is_heading(line, next_line):
            yield block
            block = []
        else:
            stripped = line.strip()
            start = _FIELD.match(stripped) or _BULLET.match(stripped) or _ENTRY.match(stripped)
            if start or (block and indent != _indent(block[-1]) and len(block) > 1):
                yield block
                block = []
            block.append(" " * indent + stripped[start.end() :] if start else line)
            if stripped.endswith("::"):
                code_indent = indent
    yield block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_heading(line: str, next_line: str) -> bool:
    """Return markdown headings, `Args:` and the entries of the NumPy style."""
    stripped = line.strip()
    if stripped.startswith("#") or re.fullmatch(r"[A-Z][\w ]{0,30}:", stripped):
        return True
    is_indented = _indent(next_line) > _indent(line) and bool(next_line.strip())
    return is_indented and bool(_NUMPY_ENTRY.fullmatch(stripped))


def _plain(text: str) -> str:
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _is_prose(text: str) -> bool:
    """Return whether a paragraph is English prose: enough words, a function word, little code."""
    words = _WORD.findall(text)
    if len(words) < 5 or not _FUNCTION_WORD.search(text):
        return False
    letters = sum(map(len, words))
    code = sum(len(match) for match in _CODE.findall(text))
    return letters > 0.7 * len(text.replace(" ", "")) and code < 0.25 * len(text)
