"""Articles of Wikipedia and other wikis from their dumps (https://dumps.wikimedia.org)."""

import re
import sys
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files, names_in, valid_text
from data_prep.corpora.dumps import DumpUnit, pages_of, split_dump
from data_prep.corpora.templates import TemplateTable, template_table
from data_prep.corpora.wikitext import Page, Site, is_too_nested, paragraphs

_XML = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCES = re.compile(rb"(?:&#(?:x[\da-fA-F]+|\d+);)+")

# The templates and titles of pages that only list articles of the same name, in the largest
# Wikipedias: in English, those of the page Template:Disambiguation, with its shortcuts and special
# forms; in other languages, of its counterparts.
_TEMPLATES = """
disambiguation|disambig|disamb|dab|disambiguation page|disambiguation cleanup|disambig-cleanup
hndis|human name disambiguation|geodis|place name disambiguation|airport disambiguation|hospitaldis
letter-number combination disambiguation|letter-numbercombdisambig|numberdis|mathdab
mathematical disambiguation|mil-unit-dis|roaddis|road disambiguation|schooldis|school disambiguation
callsigndis|call sign disambiguation|species latin name disambiguation|genus disambiguation
taxonomy disambiguation|chinese title disambiguation|letter disambiguation|station disambiguation
biology disambiguation|chemistry disambiguation|music disambiguation|opus disambiguation
synagogue disambiguation|church disambiguation|political party disambiguation|tv disambiguation
begriffsklärung
homonymie|paronymie|patronymie|toponymie|homonymes
desambiguación|desambiguacion|desambiguação|desambig|desambigua|desambiguació
disambigua
doorverwijspagina|dp|dpintro
ujednoznacznienie|strona ujednoznaczniająca
неоднозначность|многозначность|значения
багатозначність|неоднозначність
消歧义|消歧義|消歧义页|disambig-cn|曖昧さ回避|aimai|人名の曖昧さ回避|地名の曖昧さ回避
동음이의|동명이인|동음이의어
förgrening|grensida|flertydig|betydninger|peker|pekerside|täsmennyssivu
rozcestník|egyért|egyértelműsítő lap|anlam ayrımı|anlamayrımı|dezambiguizare
توضيح|ابهام‌زدایی|פירושונים|αποσαφήνιση|định hướng|trang định hướng|disambiguasi
пояснение|вишезначна одредница|razdvojba|višeznačna odrednica
"""
_TITLES = """
disambiguation|Begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|doorverwijspagina
ujednoznacznienie|значения|значення|消歧义|消歧義|曖昧さ回避|동음이의|동명이인
olika betydelser|andre betydninger|flertydig
täsmennyssivu|rozcestník|egyértelműsítő lap|anlam ayrımı|dezambiguizare|توضيح|ابهام‌زدایی
פירושונים|αποσαφήνιση|định hướng|disambiguasi|desambiguació
"""
_MARKS = names_in(_TEMPLATES)
_IN_TITLE = re.compile(rf"[(（](?:{'|'.join(map(re.escape, sorted(names_in(_TITLES))))})[)）]$")
_TEMPLATE_NAME = re.compile(r"\{\{\s*([^{}|\n]+?)\s*(?=[|}\n])")


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[DumpUnit]:
    """Yield the units of all dumps."""
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


def is_disambiguation(title: str, text: str) -> bool:
    """Return whether a page lists the articles that its title may refer to."""
    if _IN_TITLE.search(title) or "__DISAMBIG__" in text:
        return True
    return any(
        found[1].replace("_", " ").lower() in _MARKS for found in _TEMPLATE_NAME.finditer(text)
    )
