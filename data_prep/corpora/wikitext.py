"""Converts wiki text to plain text: the sentences that a reader of the article sees.

Comments, references and tables are removed first, with regular expressions, as MediaWiki itself
does before it parses; this leaves a third less to parse. The rest is parsed by `mwparserfromhell`
and visited once.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import mwparserfromhell
from mwparserfromhell import nodes
from mwparserfromhell.wikicode import Wikicode

from data_prep.corpora.base import Counts
from data_prep.corpora.lines import (
    HEADING,
    INDENT,
    clean_line,
    joined_lines,
    kept_lines,
    without_broken_markup,
)
from data_prep.corpora.tags import VISIBLE, without_elements, without_tags
from data_prep.corpora.templates import TemplateTable, template_name
from data_prep.corpora.templates.expansion import GAP, gap_numbers, numbered_gap
from data_prep.corpora.templates.functions import subscript, superscript


class Site(NamedTuple):
    """The properties of a wiki that affect its text.

    Attributes:
        name: its name, such as "enwiki".
        hidden: lower-case prefixes of links that are not shown as text: "file", "category", and
            their names in the language of the wiki.
        language: code of its language; "" if the dump does not name it.
        templates: lower-case prefix of templates, such as "modèle".
        media: lower-case prefixes of links to the content of files, which are shown as text.
    """

    name: str = "wikipedia"
    hidden: frozenset[str] = frozenset({"file", "image", "category"})
    language: str = ""
    templates: str = "template"
    media: frozenset[str] = frozenset({"media"})


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Innermost first. Marks count at the start of a line only; `|}}` ends a template, not a table.
_TABLE = re.compile(
    r"^[ \t:*]*\{\|(?:(?!^[ \t:*]*\{\|).)*?^[ \t]*\|\}(?!\})", re.DOTALL | re.MULTILINE
)
# Most of the markup is this simple, and is processed faster here than by the parser: templates
# without nested ones, and links to articles.
_TEMPLATE = re.compile(r"\{\{([^{}|\[\]<>]*)(?:\|[^{}]*)?\}\}")
# `{{{1|default}}}`: a page, which gets no arguments, shows the default.
_PARAMETER = re.compile(
    r"\{\{\{[^{}|]*(?:\|((?:[^{}|\[]|\[(?!\[)|\[\[[^\[\]{}]*\]\])*)(?:\|[^{}]*)?)?\}\}\}"
)
_LINK = re.compile(r"\[\[[^\[\]{}|<>\n:#]+\|([^\[\]{}|<>\n]+)\]\]|\[\[([^\[\]{}|<>\n:#]+)\]\]")
_MAGIC_WORD = re.compile(r"__[^\W\d_]+(?:_[^\W\d_]+)*__")
_QUOTES = re.compile(r"'{2,}")

_LINE_BREAKS = {"br", "hr"}
_BLOCKS = {
    "p", "div", "blockquote", "center", "poem", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5",
    "h6",
}  # fmt: skip
_ITEMS = {"li": "\n* ", "dt": "\n* ", "dd": "\n* "}
_CELLS = {"td", "th"}
_DROPPED = {"table", "tr", "caption", "ref", "references", "gallery", "rt", "rp"}

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
    """Return whether so much markup is open at a time that parsing would take too long."""
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


class Page:
    """What the text of a page depends on, apart from its wiki text."""

    def __init__(self, site: Site, templates: TemplateTable, title: str = ""):
        self.site, self._templates, self._title = site, templates, title
        self._unknown: dict[str, int] = {}

    def plain(self, code: Wikicode | None) -> str:
        """Return the text of parsed wiki text."""
        return "".join([_TEXTS[type(node)](self, node) for node in code.nodes]) if code else ""

    def template_text(self, template: nodes.Template) -> str:
        """Return the text of a template, or a gap."""
        name = str(template.name)
        if self._templates.is_known(name):
            return self._templates.text(template, self.plain, self._title)
        return self._gap(name)

    def without_template(self, found: re.Match) -> str:
        """Return the gap that a template leaves if its name tells that it has no text."""
        name = found[1]
        if not self._templates.is_known(name):
            return self._gap(name)
        return GAP if self._templates.has_no_text(name) else found[0]

    def _gap(self, name: str) -> str:
        return numbered_gap(self._unknown.setdefault(name, len(self._unknown)))

    def unknown_templates(self, line: str) -> list[str]:
        """Return the names of the unknown templates that have left gaps in a line."""
        names = list(self._unknown)
        return [name for number in gap_numbers(line) if (name := template_name(names[number]))]


def paragraphs(
    text: str,
    page: Page,
    keep_headings: bool = False,
    keep_lists: bool = False,
    counts: Counts | None = None,
) -> list[str]:
    """Return the paragraphs of an article, each on one line.

    Args:
        counts: updated with the lines of broken markup that are dropped, and with the unknown
            templates inside the paragraphs.
    """
    counts = counts or Counts()
    lines, dropped = without_broken_markup(plain_text(text, page).split("\n"))
    if dropped:
        counts.left_out["lines of broken markup"] += dropped
    found = []
    for line in kept_lines(joined_lines(lines), keep_headings, keep_lists):
        if paragraph := clean_line(line):
            found.append(paragraph)
            if GAP in line:
                for name in page.unknown_templates(line):
                    counts.add_unknown_template(name)
    return found


def plain_text(text: str, page: Page) -> str:
    """Return an article without markup but `*#:;` and `HEADING` at the start of lines."""
    text = without_elements(_COMMENT.sub("", text))
    while (shorter := _TABLE.sub("", text)) != text:
        text = shorter
    while (shorter := _TEMPLATE.sub(page.without_template, _without_parameters(text))) != text:
        text = shorter
    text = _LINK.sub(lambda found: found[1] or found[2], text)
    # `__NOTOC__` goes, in any alphabet, and `__init__` stays.
    text = _MAGIC_WORD.sub(lambda found: "" if found[0] == found[0].upper() else found[0], text)
    text = text.replace("\n ", f"\n{INDENT}")
    # Style tags are skipped: bold and italic quotes are easier to remove afterwards, and unbalanced
    # ones cannot confuse the parser.
    code = mwparserfromhell.parse(text, skip_style_tags=True)
    text = without_tags(_VARIANTS.sub(_variant, page.plain(code)))
    return "\n".join(map(_without_style, text.split("\n")))


def _entity(page: Page, node: nodes.HTMLEntity) -> str:
    try:
        text = node.normalize()
    except (ValueError, OverflowError):  # "&#x999999999;"
        text = " "
    # Control characters stand for markup from here on; in HTML, they are not characters.
    return " " if text < " " and text not in "\t\n" else text.translate(VISIBLE)


def _link(page: Page, node: nodes.Wikilink) -> str:
    title = str(node.title).strip()
    prefix, colon, _ = title.partition(":")
    prefix = prefix.strip().lower().replace("_", " ")
    # A colon in front makes a link of what would be an image, or a category of the page.
    is_shown = not prefix or prefix in page.site.media
    is_hidden = prefix in page.site.hidden or _FILE_NAME.search(title)
    if colon and is_hidden and not is_shown:
        return ""
    if node.text is not None:
        return page.plain(node.text)
    if colon and prefix and _INTERLANGUAGE.fullmatch(title.partition(":")[0]):
        return ""  # a link to the article in another language, not shown in the text
    return page.plain(node.title).strip().removeprefix(":").replace("_", " ")


def _tag(page: Page, node: nodes.Tag) -> str:
    name = str(node.tag).strip().lower()
    if node.wiki_markup and name in _ITEMS:
        return node.wiki_markup
    if name in _LINE_BREAKS:
        return "\n"
    if name in _CELLS:
        return " "
    if name in _DROPPED:
        return ""
    text = page.plain(node.contents)
    if name in _BLOCKS or name in _ITEMS:
        # Indented lines are code, unless the indentation follows the nesting of tags.
        return _ITEMS.get(name, "\n") + text.replace(INDENT, " ") + "\n"
    if name in ("sub", "sup"):
        return subscript(text.strip()) if name == "sub" else superscript(text.strip())
    return text


_TEXTS: dict[type[nodes.Node], Callable[[Page, Any], str]] = {
    nodes.Text: lambda page, node: node.value,
    nodes.HTMLEntity: _entity,
    nodes.Heading: lambda page, node: f"\n{HEADING * node.level}{page.plain(node.title).strip()}\n",
    nodes.Template: Page.template_text,
    nodes.Wikilink: _link,
    nodes.ExternalLink: lambda page, node: page.plain(node.title if node.brackets else None),
    nodes.Tag: _tag,
    nodes.Comment: lambda page, node: "",
    nodes.Argument: lambda page, node: page.plain(node.default),
}


def _without_parameters(text: str) -> str:
    while (shorter := _PARAMETER.sub(lambda found: found[1] or GAP, text)) != text:
        text = shorter
    return text


def _without_style(line: str) -> str:
    """Return a line without the quotes that mark italics (2), bold (3) or both (5).

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
    """Return the quotes of a run that are not markup."""
    length = len(run[0])
    return "'" if length == 4 else "'" * (length - 5)


def _follows_long_word(line: str, run: re.Match) -> bool:
    """Return False, which sorts first, after the letter of an elision: `l'''amour`."""
    word = line[: run.start()].split()[-1:]
    return not (word and len(word[0].strip("'([\"")) == 1)


# Chinese dumps contain words in several scripts: -{zh-hans:软件; zh-hant:軟體}-
_VARIANTS = re.compile(r"-\{(?:([A-Za-z;-]*)\|)?(.*?)\}-")
_FIRST_VARIANT = re.compile(r"\s*(?:zh|sr|kk|ku|uz|iu|tg|shi|crh|gan)[\w-]*\s*:\s*([^;]*)")


def _variant(found: re.Match) -> str:
    """Return the first of several spellings of a word; "" for rules that only apply elsewhere."""
    flags, text = found[1] or "", found[2]
    if set(flags) & set("THD-"):
        return ""
    first = _FIRST_VARIANT.match(text)
    return first[1].strip() if first else text
