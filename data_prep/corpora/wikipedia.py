"""Articles of Wikipedia and other wikis from their dumps (https://dumps.wikimedia.org)."""

import re
import sys
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files, valid_text
from data_prep.corpora.disambiguation import is_disambiguation
from data_prep.corpora.dumps import DumpUnit, pages_of, split_dump
from data_prep.corpora.templates import TemplateTable, template_table
from data_prep.corpora.wikitext import Page, Site, is_too_nested, paragraphs

_XML = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCES = re.compile(rb"(?:&#(?:x[\da-fA-F]+|\d+);)+")


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[DumpUnit]:
    """Yield the units of all dumps.

    Raises:
        InputError: If a file is not a dump.
    """
    for path in options.readable(find_files(patterns), lambda path: next(split_dump(path), None)):
        yield from split_dump(path)


def documents(unit: DumpUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield the articles of a unit; the language selects the templates if the dump names none."""
    language = unit.site.language or options.language
    templates = template_table(language, options.templates, unit.site.templates)
    for xml in pages_of(unit, counts):
        # One page at a time, so that nothing else is lost with a damaged one.
        try:
            found = _article(xml, unit.site, templates, options, counts)
        except Exception:  # parsers may raise anything on arbitrary text
            counts.skipped += 1
            continue
        if isinstance(found, str):
            counts.left_out[found] += 1
        else:
            counts.characters += sum(map(len, found.paragraphs))
            yield found


def _article(
    xml: bytes, site: Site, templates: TemplateTable, options: ReaderOptions, counts: Counts
) -> Document | str:
    """Return a page, or why it is left out."""
    # It begins with <page>, so no entities can be declared in it, which would expand without limit.
    page = ElementTree.fromstring(_REFERENCES.sub(_characters, xml))
    title = _required(page, "title").replace("_", " ")
    if int(page.findtext("ns", "0")) != 0:
        return "pages of other namespaces"
    if page.find("redirect") is not None:
        return "redirects"
    revision = page.findall("revision")[-1]  # the newest, if the dump contains the history
    int(_required(revision, "id"))
    if (revision.findtext("model") or "wikitext").strip() != "wikitext":
        return "pages that are not wikitext"
    text = revision.findtext("text")
    if not text:
        return "articles without text"
    if is_disambiguation(title, text):
        return "disambiguation pages"
    if is_too_nested(text):
        return "articles with hundreds of unclosed tags, templates or tables"
    page_of_text = Page(site, templates, title)
    found = paragraphs(text, page_of_text, options.keep_headings, options.keep_lists, counts)
    if not found:
        return "articles without text"
    return Document(title, site.name, found)


def _characters(references: re.Match[bytes]) -> bytes:
    """Return references to characters, those which XML cannot have as text."""
    found = ""
    for digits in re.findall(r"\w+", references[0].decode()):
        code = int(f"0{digits}", 16 if digits[0] == "x" else 10)
        if 0xD800 <= code < 0xE000:  # half of a surrogate pair
            found += chr(code)
        elif code <= sys.maxunicode and _XML.match(chr(code)):  # no control character
            found += f"&#{digits};"
    return valid_text(found).encode()


def _required(element: ElementTree.Element, name: str) -> str:
    """Return the text of a child; raise ValueError if the page is damaged and lacks it."""
    text = element.findtext(name)
    if not text:
        raise ValueError(f"<{name}> is missing")
    return text
