"""Wiki text to plain text: what a reader of the article reads as sentences.

Comments, references and tables go first, by regular expressions, as MediaWiki itself takes them out
before it parses; this leaves a third less to parse. The rest is parsed by `mwparserfromhell` and
walked once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import mwparserfromhell
from mwparserfromhell import nodes
from mwparserfromhell.wikicode import Wikicode

from data_prep.corpora.formulas import formula_text
from data_prep.corpora.sections import HEADING, INDENT, joined_lines, kept_lines
from data_prep.corpora.templates import GAP, UNKNOWN, lowered, raised, says_nothing, template_text


class Site(NamedTuple):
    """What the text of a wiki depends on.

    Attributes:
        name: its name, such as "enwiki".
        hidden: prefixes of links that show no text in their place, in lower case: "file",
            "category", and the same in its own language.
    """

    name: str = "wikipedia"
    hidden: frozenset[str] = frozenset({"file", "image", "category"})


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Elements whose content is not running text: https://www.mediawiki.org/wiki/Parser_extension_tags
_ELEMENT = re.compile(
    r"<(ref|references|gallery|timeline|imagemap|score|graph|hiero|templatedata|templatestyles|"
    r"syntaxhighlight|source|pre|mapframe|maplink|indicator|inputbox|categorytree|section|rss|"
    r"chem|ce|style|noinclude|includeonly|phonos|chart)\b[^<>]*?(?:/>|>.*?</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_MATH = re.compile(r"<math\b[^<>]*?(?:/>|>(.*?)</math\s*>)", re.DOTALL | re.IGNORECASE)
# Innermost first. At the start of a line only, where `|}}` ends a template, not a table.
_TABLE = re.compile(
    r"^[ \t:*]*\{\|(?:(?!^[ \t:*]*\{\|).)*?^[ \t]*\|\}(?!\})", re.DOTALL | re.MULTILINE
)
# Most of the markup is as plain as this, and costs less here than in the parser: templates without
# others in them, and links to articles.
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


def paragraphs(
    text: str, site: Site, keep_headings: bool = False, keep_lists: bool = False
) -> list[str]:
    """The paragraphs of an article, each on one line.

    Args:
        text: wiki text of the article.
        site: the wiki.
        keep_headings: whether headings are paragraphs too, where text follows.
        keep_lists: whether items of lists are paragraphs too.
    """
    lines = plain_text(text, site).split("\n")
    lines = ["" if _is_broken(line) else line for line in lines]
    kept = kept_lines(joined_lines(lines), keep_headings, keep_lists)
    return [line for line in map(clean_line, kept) if line]


def plain_text(text: str, site: Site) -> str:
    """An article without markup, but for `*#:;` before items and `HEADING` before headings."""
    text = _COMMENT.sub("", text)
    text = _MATH.sub(lambda found: formula_text(found[1] or "") or GAP, _ELEMENT.sub("", text))
    while (shorter := _TABLE.sub("", text)) != text:
        text = shorter
    while (shorter := _TEMPLATE.sub(_without_template, text)) != text:
        text = shorter
    text = _LINK.sub(lambda found: found[1] or found[2], text)
    text = _MAGIC_WORD.sub(_without_magic_word, text)
    text = text.replace("\n ", f"\n{INDENT}")
    # Without style tags: bold and italic quotes are easier taken out afterwards, and unbalanced
    # ones cannot confuse the parser.
    code = mwparserfromhell.parse(text, skip_style_tags=True)
    out: list[str] = []
    _Writer(site, out.append).write(code)
    text = _VARIANTS.sub(_variant, "".join(out))
    return "\n".join(map(_without_style, text.split("\n")))


class _Writer:
    """Writes the text of nodes one after the other."""

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
            return  # a link to the article in another language, shown beside the text
        else:
            self._put(self._plain(node.title).strip().removeprefix(":").replace("_", " "))

    def _tag(self, node: nodes.Tag) -> None:
        name = str(node.tag).strip().lower()
        if node.wiki_markup and name in _ITEMS:
            self._put(node.wiki_markup)
        elif name in _LINE_BREAKS:
            self._put("\n")
        elif name in _BLOCKS or name in _ITEMS:
            # Indented lines are code, but not where the indentation follows the tags.
            text = self._plain(node.contents).replace(INDENT, " ") if node.contents else ""
            self._put(f"{_ITEMS.get(name, _LINE)}{text}\n")
        elif name in ("sub", "sup"):
            text = self._plain(node.contents).strip() if node.contents else ""
            self._put(lowered(text) if name == "sub" else raised(text))
        elif name not in _DROPPED:
            self.write(node.contents)

    _WRITERS = {
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
    return GAP if says_nothing(found[1]) else found[0]


def _without_magic_word(found: re.Match) -> str:
    """`__NOTOC__` goes, in any alphabet; `__init__` stays."""
    return "" if found[0] == found[0].upper() else found[0]


def _without_style(line: str) -> str:
    """A line without its quotes for italics (2), bold (3) or both (5); other ones are to be seen.

    Where both are unbalanced, as in `''Iliad'''s`, MediaWiki takes one bold for an apostrophe and
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
        chosen = min(inside_words, key=lambda run: _letters_before(line, run), default=None)
        apostrophe = chosen.start() if chosen else -1
    return _QUOTES.sub(lambda run: "'" if run.start() == apostrophe else _seen(run), line)


def _seen(run: re.Match) -> str:
    length = len(run[0])
    return "'" if length == 4 else "'" * (length - 5)


def _letters_before(line: str, run: re.Match) -> bool:
    """False, so first, for the single letter of an elision: `l'''amour`."""
    word = line[: run.start()].split()[-1:]
    return not (word and len(word[0].strip("'([\"")) == 1)


# What is removed from inside brackets leaves separators: "(; 1 May 1900)", "( , born)".
_BRACKET_START = re.compile(r"(?<=[(\[（【])(?:[\s;,:、；，：]+|[\s–—-]+(?=\s))+")
_BRACKET_END = re.compile(r"[\s;,:、；，]+(?=[)\]）])")
_UNKNOWN_IN_BRACKETS = re.compile(rf"\s?\([^()]*{UNKNOWN}[^()]*\)")
_EMPTY_BRACKETS = re.compile(r"\s?(?:\(\s*(?:or|and|;|,)?\s*\)|\[\s*\]|（\s*）|【\s*】)")
_REPEATED_SEPARATOR = re.compile(r"([:;,])(?:\s*[;,])+(?=\s|$)|[;,]\s*(?=\.(?:\s|$))")
_SPACE_BEFORE_GAP = re.compile(rf"\s+{GAP}+(?=\s*[.,;:!?)\]])")
_SPACE_BEFORE = re.compile(r"(?<=\w)\s+(?=[,.](?:\s|$))|\s+(?=[)\]）])")
# Chinese dumps keep words in several scripts: -{zh-hans:软件; zh-hant:軟體}-
_VARIANTS = re.compile(r"-\{(?:([A-Za-z;-]*)\|)?(.*?)\}-")
_FIRST_VARIANT = re.compile(r"\s*(?:zh|sr|kk|ku|uz|iu|tg|shi|crh|gan)[\w-]*\s*:\s*([^;]*)")
# Markup that no parser could match: it is better to lose the line.
_BROKEN_LINE = re.compile(
    r"\{\{|\}\}|\{\||\|\}|^\s*[|!]|\|-|\]\s*\||</?(?:ref|div|span|table|gallery|math|br)\b|"
    r"\b(?:style|class|colspan|rowspan|align|bgcolor|width|valign)\s*=|"
    r"^\s*(?:thumb|left|right|center|\d+px)\s*\|",
    re.IGNORECASE,
)


def _is_broken(line: str) -> bool:
    # Few lines have any of these characters, and looking for them takes no time.
    return any(mark in line for mark in "{}|<=") and bool(_BROKEN_LINE.search(line))


def clean_line(line: str) -> str:
    """A line without the traces of what was removed; "" for one that is no text."""
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
    line = " ".join(line.split())  # once more: what was removed leaves two spaces
    return line if any(character.isalpha() for character in line) else ""


def _variant(found: re.Match) -> str:
    """The first of several ways to write a word; rules that only apply elsewhere say nothing."""
    flags, text = found[1] or "", found[2]
    if set(flags) & set("THD-"):
        return ""
    first = _FIRST_VARIANT.match(text)
    return first[1].strip() if first else text
