"""HTML and extension tags of wiki text: which hide their content, and those that are not closed.

MediaWiki shows the text after an extension tag that is never closed, and repairs HTML tags. Here,
too, an element ends at its own closing tag or not at all: one that begins again before it is closed
was not closed the first time, so that little text is hidden by a mistake.
"""

import re

from data_prep.corpora.formulas import formula_text
from data_prep.corpora.templates.expansion import GAP
from data_prep.corpora.templates.functions import chemical_formula

# Stand for visible characters that are not markup: entities and the content of `<nowiki>`. XML
# cannot contain them, and they are not white space.
VISIBLE = str.maketrans("<{|}[]", "\x04\x05\x18\x19\x1a\x1b")
SHOWN = {placeholder: character for character, placeholder in VISIBLE.items()}

# Elements that do not contain running text: https://www.mediawiki.org/wiki/Parser_extension_tags
_HIDDEN = (
    "ref|references|gallery|timeline|imagemap|score|graph|hiero|templatedata|templatestyles|"
    "syntaxhighlight|source|pre|mapframe|maplink|indicator|inputbox|categorytree|section|rss|"
    "style|includeonly|phonos|chart"
)
_FORMULAS = "math|chem|ce"


def _element(names: str) -> re.Pattern[str]:
    content = r"[^<]*(?:<(?!/?\1\b)[^<]*)*"
    return re.compile(rf"<({names})\b[^<>]*?(?:/>|>({content})</\1\s*>)", re.DOTALL | re.IGNORECASE)


_HIDDEN_ELEMENT, _FORMULA = _element(_HIDDEN), _element(_FORMULAS)
_NOWIKI = re.compile(
    r"<nowiki\s*/>|<nowiki\s*>([^<]*(?:<(?!/?nowiki\b)[^<]*)*)</nowiki\s*>", re.IGNORECASE
)
_MARKUP = re.compile(r"[<>\[\]{}|]")

_LINES = (
    "p|div|blockquote|center|poem|ul|ol|dl|li|dt|dd|h1|h2|h3|h4|h5|h6|br|hr|table|tr|caption|"
    "section|article|aside|header|footer|main|nav|figure|figcaption|form|fieldset|address|details|"
    "summary|tbody|thead|tfoot"
)
_CELLS = "td|th"
_INLINE = (
    "a|abbr|acronym|area|audio|b|base|bdi|bdo|big|blink|body|button|canvas|cite|code|col|colgroup|"
    "data|datalist|del|dfn|em|embed|font|frame|frameset|head|html|i|iframe|img|input|ins|kbd|label|"
    "legend|link|map|mark|marquee|menu|meta|meter|noframes|noscript|nowiki|object|optgroup|option|"
    "output|param|picture|progress|q|rb|rbc|rp|rt|rtc|ruby|s|samp|script|select|small|span|strike|"
    "strong|sub|sup|svg|template|textarea|time|title|track|tt|u|var|video|wbr|charinsert|"
    "dynamicpagelist|langconvert|listing|quiz|noinclude|onlyinclude|nomobile|translate|tvar|languages"
)
_ALL = "|".join((_LINES, _CELLS, _INLINE, _FORMULAS, _HIDDEN))
_TAG = re.compile(
    # A tag without its end is one only if its name is longer than that of a variable: "a <b".
    rf"</?(?:({_LINES})|({_CELLS})|(?:{_ALL}))"
    r"(?:[\\.]?(?=[\s/>])(?:[^<>\n]|\n(?!\s*\n))*>|"
    r"(?<=\w\w)\b(?:\s+[\w-]+\s*=\s*(?:\"[^\"<>\n]*\"?|[^\s<>]*))*[ ]*/?)",
    re.IGNORECASE,
)


def without_elements(text: str) -> str:
    """Wiki text without elements that are not text, and with formulas as text."""
    if "<" not in text:
        return text
    text = _NOWIKI.sub(_escaped, text)
    return _FORMULA.sub(_formula, _HIDDEN_ELEMENT.sub("", text))


def without_tags(text: str) -> str:
    """Return the text of a page without tags that were left for lack of a counterpart."""
    if "<" not in text:
        return text
    return _TAG.sub(lambda found: "\n" if found[1] else " " if found[2] else "", text)


def _escaped(found: re.Match) -> str:
    """Return the content of `<nowiki>`, in which markup is text."""
    return _MARKUP.sub(lambda mark: f"&#{ord(mark[0])};", found[1] or "")


def _formula(found: re.Match) -> str:
    name, content = found[1].lower(), found[2] or ""
    text = formula_text(content) if name == "math" else chemical_formula(content)
    return text.replace("<", "&lt;") or GAP
