"""Converts wiki text to plain text: the sentences that a reader of the article sees.

Comments, references and tables are removed first, with regular expressions, as MediaWiki itself
does before it parses; this leaves a third less to parse. The rest is parsed by `mwparserfromhell`
and visited once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import mwparserfromhell
from mwparserfromhell import nodes
from mwparserfromhell.wikicode import Wikicode

from data_prep.corpora.formulas import formula_text
from data_prep.corpora.sections import HEADING, INDENT, joined_lines, kept_lines
from data_prep.corpora.templates import (
    GAP,
    UNKNOWN,
    has_no_text,
    subscript,
    superscript,
    template_text,
)


class Site(NamedTuple):
    """The properties of a wiki that affect its text.

    Attributes:
        name: its name, such as "enwiki".
        hidden: lower-case prefixes of links that are not shown as text: "file", "category", and
            their names in the language of the wiki.
    """

    name: str = "wikipedia"
    hidden: frozenset[str] = frozenset({"file", "image", "category"})


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Elements that do not contain running text: https://www.mediawiki.org/wiki/Parser_extension_tags
_ELEMENT = re.compile(
    r"<(ref|references|gallery|timeline|imagemap|score|graph|hiero|templatedata|templatestyles|"
    r"syntaxhighlight|source|pre|mapframe|maplink|indicator|inputbox|categorytree|section|rss|"
    r"chem|ce|style|noinclude|includeonly|phonos|chart)\b[^<>]*?(?:/>|>.*?</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_MATH = re.compile(r"<math\b[^<>]*?(?:/>|>(.*?)</math\s*>)", re.DOTALL | re.IGNORECASE)
# Innermost first. Marks count at the start of a line only; `|}}` ends a template, not a table.
_TABLE = re.compile(
    r"^[ \t:*]*\{\|(?:(?!^[ \t:*]*\{\|).)*?^[ \t]*\|\}(?!\})", re.DOTALL | re.MULTILINE
)
# Most of the markup is this simple, and is processed faster here than by the parser: templates
# without nested ones, and links to articles.
_TEMPLATE = re.compile(r"\{\{([^{}|\[\]<>]*)(?:\|[^{}]*)?\}\}")
_LINK = re.compile(r"\[\[[^\[\]{}|<>\n:#]+\|([^\[\]{}|<>\n]+)\]\]|\[\[([^\[\]{}|<>\n:#]+)\]\]")
_MAGIC_WORD = re.compile(r"__[^\W\d_]+(?:_[^\W\d_]+)*__")
_QUOTES = re.compile(r"'{2,}")

_LINE = "\n"
_LINE_BREAKS = {"br", "hr"}
_BLOCKS = {"p", "div", "blockquote", "center", "poem", "ul", "ol", "dl", "h1", "h2", "h3", "h4"}
_ITEMS = {"li": "\n* ", "dt": "\n* ", "dd": "\n* "}
_DROPPED = {"table", "tr", "td", "th", "caption", "ref", "references", "gallery", "rt", "rp"}

_INTERLANGUAGE = re.compile(r"(?:[a-z]{2,3}|simple)(?:-[a-z]+)*")
_FILE_NAME = re.compile(
    r":.*\.(?:jpe?g|png|svg|gif|tiff?|webp|og[agv]|web[ma]|pdf|djvu|wav|midi?|mp[34]|flac)\s*$",
    re.IGNORECASE,
)


# Markup that is not closed costs time with the square of its amount.
_PAIRS = {
    opening: re.compile(pattern, re.IGNORECASE)
    for opening, pattern in {
        "{{": r"(\{\{)|\}\}",
        "{|": r"(\{\|)|\|\}",
        "[": r"(\[)|\]",
        "-{": r"(-\{)|\}-",
        "<": r"(<(?!br\b|hr\b|wbr\b|li\b|d[td]\b)[a-z!])|</|/>|-->",
    }.items()
}
_HARMLESS_DEPTH, _MAX_DEPTH = 10, 500
_MAX_WORK = 50_000_000  # depth times characters, half a minute at worst


def is_too_nested(text: str) -> bool:
    """Whether markup is open at so many places at a time that its parser would take too long."""
    for opening, pattern in _PAIRS.items():
        if text.count(opening) <= _HARMLESS_DEPTH:
            continue
        depth = deepest = 0
        for mark in pattern.finditer(text):
            depth = depth + 1 if mark[1] else max(depth - 1, 0)
            deepest = max(deepest, depth)
        if deepest > _MAX_DEPTH or deepest > _HARMLESS_DEPTH and deepest * len(text) > _MAX_WORK:
            return True
    return False


def paragraphs(
    text: str, site: Site, keep_headings: bool = False, keep_lists: bool = False
) -> list[str]:
    """The paragraphs of an article, each on one line.

    Args:
        text: wiki text of the article.
        site: the wiki.
        keep_headings: whether to keep headings, as paragraphs, if text follows them.
        keep_lists: whether to keep list items, as paragraphs.
    """
    lines = plain_text(text, site).split("\n")
    lines = ["" if _is_broken(line) else line for line in lines]
    kept = kept_lines(joined_lines(lines), keep_headings, keep_lists)
    return [line for line in map(clean_line, kept) if line]


def plain_text(text: str, site: Site) -> str:
    """An article without markup, except `*#:;` before list items and `HEADING` before headings."""
    text = _COMMENT.sub("", text)
    text = _MATH.sub(lambda found: formula_text(found[1] or "") or GAP, _ELEMENT.sub("", text))
    while (shorter := _TABLE.sub("", text)) != text:
        text = shorter
    while (shorter := _TEMPLATE.sub(_without_template, text)) != text:
        text = shorter
    text = _LINK.sub(lambda found: found[1] or found[2], text)
    text = _MAGIC_WORD.sub(_without_magic_word, text)
    text = text.replace("\n ", f"\n{INDENT}")
    # Style tags are skipped: bold and italic quotes are easier to remove afterwards, and unbalanced
    # ones cannot confuse the parser.
    code = mwparserfromhell.parse(text, skip_style_tags=True)
    out: list[str] = []
    _Writer(site, out.append).write(code)
    text = _VARIANTS.sub(_variant, "".join(out))
    return "\n".join(map(_without_style, text.split("\n")))


class _Writer:
    """Writes the text of the nodes of a parsed article."""

    def __init__(self, site: Site, put: Callable[[str], None]):
        self._site, self._put = site, put

    def write(self, code: Wikicode | None) -> None:
        for node in code.nodes if code else ():
            self._WRITERS[type(node)](self, node)

    def _plain(self, code: Wikicode) -> str:
        out: list[str] = []
        _Writer(self._site, out.append).write(code)
        return "".join(out)

    def _text(self, node: nodes.Text) -> None:
        self._put(node.value)

    def _entity(self, node: nodes.HTMLEntity) -> None:
        try:
            self._put(node.normalize())
        except (ValueError, OverflowError):  # "&#x999999999;"
            self._put(" ")

    def _heading(self, node: nodes.Heading) -> None:
        self._put(f"\n{HEADING * node.level}{self._plain(node.title).strip()}\n")

    def _template(self, node: nodes.Template) -> None:
        self._put(template_text(node, self._plain))

    def _nothing(self, node: nodes.Node) -> None:
        pass

    def _external_link(self, node: nodes.ExternalLink) -> None:
        if node.brackets:
            self.write(node.title)

    def _link(self, node: nodes.Wikilink) -> None:
        title = str(node.title).strip()
        prefix, colon, rest = title.partition(":")
        prefix = prefix.strip().lower().replace("_", " ")
        if colon and prefix in self._site.hidden or _FILE_NAME.search(title):
            return
        if node.text is not None:
            self.write(node.text)
        elif colon and prefix and _INTERLANGUAGE.fullmatch(title.partition(":")[0]):
            return  # a link to the article in another language, not shown in the text
        else:
            self._put(self._plain(node.title).strip().removeprefix(":").replace("_", " "))

    def _tag(self, node: nodes.Tag) -> None:
        name = str(node.tag).strip().lower()
        if node.wiki_markup and name in _ITEMS:
            self._put(node.wiki_markup)
        elif name in _LINE_BREAKS:
            self._put("\n")
        elif name in _BLOCKS or name in _ITEMS:
            # Indented lines are code, unless the indentation follows the nesting of tags.
            text = self._plain(node.contents).replace(INDENT, " ") if node.contents else ""
            self._put(f"{_ITEMS.get(name, _LINE)}{text}\n")
        elif name in ("sub", "sup"):
            text = self._plain(node.contents).strip() if node.contents else ""
            self._put(subscript(text) if name == "sub" else superscript(text))
        elif name not in _DROPPED:
            self.write(node.contents)

    _WRITERS: ClassVar[dict[type[nodes.Node], Callable[[_Writer, Any], None]]] = {
        nodes.Text: _text,
        nodes.HTMLEntity: _entity,
        nodes.Heading: _heading,
        nodes.Template: _template,
        nodes.Wikilink: _link,
        nodes.ExternalLink: _external_link,
        nodes.Tag: _tag,
        nodes.Comment: _nothing,
        nodes.Argument: _nothing,
    }


def _without_template(found: re.Match) -> str:
    return GAP if has_no_text(found[1]) else found[0]


def _without_magic_word(found: re.Match) -> str:
    """Removes `__NOTOC__`, in any alphabet; keeps `__init__`."""
    return "" if found[0] == found[0].upper() else found[0]


def _without_style(line: str) -> str:
    """A line without the quotes that mark italics (2), bold (3) or both (5); others are kept.

    If both are unbalanced, as in `''Iliad'''s`, MediaWiki takes one bold mark for an apostrophe and
    italics (Parser::doQuotes).
    """
    runs = list(_QUOTES.finditer(line))
    italics = sum(len(run[0]) in (2, 5) for run in runs)
    bold = sum(len(run[0]) > 2 for run in runs)
    apostrophe = -1
    if italics % 2 and bold % 2:
        inside_words = [
            run for run in runs if len(run[0]) == 3 and line[: run.start()][-1:].strip()
        ]
        chosen = min(inside_words, key=lambda run: _follows_long_word(line, run), default=None)
        apostrophe = chosen.start() if chosen else -1
    return _QUOTES.sub(lambda run: "'" if run.start() == apostrophe else _visible_quotes(run), line)


def _visible_quotes(run: re.Match) -> str:
    """The quotes of a run that are not markup."""
    length = len(run[0])
    return "'" if length == 4 else "'" * (length - 5)


def _follows_long_word(line: str, run: re.Match) -> bool:
    """False, which sorts first, after the single letter of an elision: `l'''amour`."""
    word = line[: run.start()].split()[-1:]
    return not (word and len(word[0].strip("'([\"")) == 1)


# Text removed from inside brackets leaves separators: "(; 1 May 1900)", "( , born)".
_BRACKET_START = re.compile(r"(?<=[(\[（【])(?:[\s;,:、；，：]+|[\s–—-]+(?=\s))+")
_BRACKET_END = re.compile(r"[\s;,:、；，]+(?=[)\]）])")
_UNKNOWN_IN_BRACKETS = re.compile(rf"\s?\([^()]*{UNKNOWN}[^()]*\)")
_EMPTY_BRACKETS = re.compile(r"\s?(?:\(\s*(?:or|and|;|,)?\s*\)|\[\s*\]|（\s*）|【\s*】)")
_REPEATED_SEPARATOR = re.compile(r"([:;,])(?:\s*[;,])+(?=\s|$)|[;,]\s*(?=\.(?:\s|$))")
_SPACE_BEFORE_GAP = re.compile(rf"\s+{GAP}+(?=\s*[.,;:!?)\]])")
_SPACE_BEFORE = re.compile(r"(?<=\w)\s+(?=[,.](?:\s|$))|\s+(?=[)\]）])")
# Chinese dumps contain words in several scripts: -{zh-hans:软件; zh-hant:軟體}-
_VARIANTS = re.compile(r"-\{(?:([A-Za-z;-]*)\|)?(.*?)\}-")
_FIRST_VARIANT = re.compile(r"\s*(?:zh|sr|kk|ku|uz|iu|tg|shi|crh|gan)[\w-]*\s*:\s*([^;]*)")
# Markup that the parser could not match; such lines are dropped.
_BROKEN_LINE = re.compile(
    r"\{\{|\}\}|\{\||\|\}|^\s*[|!]|\|-|\]\s*\||</?(?:ref|div|span|table|gallery|math|br)\b|"
    r"\b(?:style|class|colspan|rowspan|align|bgcolor|width|valign)\s*=|"
    r"^\s*(?:thumb|left|right|center|\d+px)\s*\|",
    re.IGNORECASE,
)


def _is_broken(line: str) -> bool:
    # Few lines contain any of these characters, and searching for them is fast.
    return any(mark in line for mark in "{}|<=") and bool(_BROKEN_LINE.search(line))


def clean_line(line: str) -> str:
    """A line without the traces of removed markup; "" for one that is not text."""
    line = " ".join(line.replace("[[", "").replace("]]", "").split())
    if UNKNOWN in line:
        line = _UNKNOWN_IN_BRACKETS.sub("", line).replace(UNKNOWN, "")
    if GAP in line:
        line = _SPACE_BEFORE_GAP.sub("", line).replace(GAP, "")
        line = _REPEATED_SEPARATOR.sub(r"\1", line)
    if "(" in line or "[" in line or "（" in line or "【" in line:
        line = _BRACKET_START.sub("", line)
        line = _BRACKET_END.sub("", line)
        line = _EMPTY_BRACKETS.sub("", line)
    if any(mark in line for mark in (" ,", " .", " )", " ]", " ）")):
        line = _SPACE_BEFORE.sub("", line)
    line = " ".join(line.split())  # again: removed text leaves two spaces
    return line if any(character.isalpha() for character in line) else ""


def _variant(found: re.Match) -> str:
    """The first of several spellings of a word; "" for rules that only apply elsewhere."""
    flags, text = found[1] or "", found[2]
    if set(flags) & set("THD-"):
        return ""
    first = _FIRST_VARIANT.match(text)
    return first[1].strip() if first else text
