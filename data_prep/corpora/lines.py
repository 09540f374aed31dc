"""The lines of an article, once its markup is parsed: which are text, without traces of markup.

Lists, references at the end and what is left of broken markup are dropped; gaps are closed.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from data_prep.corpora.base import names_in
from data_prep.corpora.tags import SHOWN
from data_prep.corpora.templates.expansion import ANY_GAP, GAP, GAP_CHARACTERS, UNKNOWN

# Marks a heading, repeated as often as its level. XML cannot contain this character.
HEADING = "\x02"

# Replaces the first space of an indented line: MediaWiki shows such lines verbatim, so they are
# usually code. The parser must take it for white space; XML cannot contain it.
INDENT = "\x1f"

# A line of these characters only contained a template or a formula that is not text.
_EMPTY = f"{GAP_CHARACTERS}{UNKNOWN} \t"

# A longer indented line is a paragraph that was indented by mistake.
_MAX_CODE_LINE = 160

_LIST_MARKS = ("*", "#", ":", ";")

# Sections that only refer elsewhere, in the languages of the largest Wikipedias, as named in their
# manuals of style.
_POINTERS = """
see also|references|external links|further reading|notes and references|references and notes
siehe auch|weblinks|einzelnachweise|literatur|anmerkungen und einzelnachweise
voir aussi|articles connexes|liens externes|notes et références|références|bibliographie
véase también|referencias|enlaces externos|notas y referencias
voci correlate|collegamenti esterni|altri progetti
ver também|referências|ligações externas
zie ook|externe links|externe link|bronnen, noten en/of referenties
zobacz też|linki zewnętrzne|przypisy|bibliografia
см. также|примечания|ссылки|литература
див. також|примітки|посилання|література
参见|參見|参考文献|參考文獻|外部链接|外部連結|外部鏈接|参考资料|參考資料|延伸阅读|延伸閱讀
関連項目|脚注|出典|外部リンク|参考書籍
같이 보기|각주|외부 링크|참고 문헌
se även|referenser|externa länkar|källor
se også|referanser|eksterne lenker|henvisninger|eksterne henvisninger
katso myös|lähteet|aiheesta muualla
viz také|reference|externí odkazy|odkazy
ayrıca bakınız|kaynakça|dış bağlantılar
انظر أيضا|مراجع|وصلات خارجية|انظر أيضًا
xem thêm|tham khảo|liên kết ngoài|chú thích
lihat pula|referensi|pranala luar
"""
# Sections that are usually lists of sources, and sometimes prose.
_LISTS = """
notes|bibliography|footnotes|sources|citations|works cited|literature|notes and citations|references
anmerkungen|quellen|belege|notes|annexes|notas|bibliografía|fuentes|note|bibliografia|bronnen|noten
источники|注释|註釋|注釋|注解|来源|注|注記
"""
_POINTER_TITLES, _LIST_TITLES = names_in(_POINTERS), names_in(_LISTS)


class _Section(NamedTuple):
    level: int
    title: str
    lines: list[str]


# A line that ends like this is not continued by the next one.
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…।۔؟][\"'”’»」』)）\]]*\s*$")


def joined_lines(lines: Iterable[str]) -> Iterator[str]:
    """Join lines that a sentence continues across; replace lines of code by empty ones.

    Outside of lists, a single line end has no meaning in wiki text.
    """
    before = ""
    for line in lines:
        if not line.strip(_EMPTY) or line.startswith(INDENT) and len(line) <= _MAX_CODE_LINE:
            line = ""
        if before and line.strip() and not line.startswith((HEADING, *_LIST_MARKS)):
            before = f"{before} {line}"
        else:
            yield before
            before = line
        if before.startswith((HEADING, *_LIST_MARKS)) or _SENTENCE_END.search(before):
            yield before
            before = ""
    yield before


def kept_lines(lines: Iterable[str], keep_headings: bool, keep_lists: bool) -> Iterator[str]:
    """Yield the lines that are text, without the marks of lists and headings.

    Args:
        lines: lines of an article, with headings marked by `HEADING`.
        keep_headings: whether to yield headings that are followed by text.
        keep_lists: whether to yield list items.
    """
    headings: list[_Section] = []  # enclosing sections whose headings are not yielded yet
    left_out = 0  # level of a section that is left out together with its subsections
    for section in _sections(lines):
        if left_out and section.level > left_out:
            continue
        left_out = 0
        if _is_apparatus(section):
            left_out = section.level
            continue
        headings = [heading for heading in headings if heading.level < section.level]
        if section.title:
            headings.append(section)
        for line in section.lines:
            if line.startswith(_LIST_MARKS):
                if not keep_lists:
                    continue
                line = line.lstrip("".join(_LIST_MARKS))
            if keep_headings and any(map(str.isalpha, line)):
                yield from (heading.title for heading in headings)
                headings = []
            yield line


def _sections(lines: Iterable[str]) -> Iterator[_Section]:
    section = _Section(0, "", [])
    for line in lines:
        if line.startswith(HEADING):
            yield section
            title = line.lstrip(HEADING)
            section = _Section(len(line) - len(title), title, [])
        else:
            section.lines.append(line)
    yield section


def _is_apparatus(section: _Section) -> bool:
    title = re.sub(ANY_GAP, "", section.title).lower().strip(" :'")
    if title in _POINTER_TITLES:
        return True
    items = sum(line.startswith(_LIST_MARKS) for line in section.lines)
    prose = sum(bool(line.strip()) for line in section.lines) - items
    return title in _LIST_TITLES and items >= prose


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
_LINE_START = rf"(?:{ANY_GAP}|[\s\x1f:*])*"
_TABLE_MARK = re.compile(_LINE_START + r"(?:\{\||\|\}|\|\+|\|-+\s*(?:$|[\w-]+\s*=))")
_TABLE_LINE = re.compile(_LINE_START + r"[|!]")
_CELL_OR_PARAMETER = re.compile(_LINE_START + r"\|(?:\s|\s*$|[\w .-]+=[^|]*$)")
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
    """Return lines, with "" for those left of markup that is not closed, and how many these are."""
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
    return any(map(line.__contains__, "|={}")) or ":" in line[:20] or line.lstrip()[:1] == "!"


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
