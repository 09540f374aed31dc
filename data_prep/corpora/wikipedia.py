"""Articles of Wikipedia and other wikis from their dumps (https://dumps.wikimedia.org)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence

import mwxml

from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.corpora.disambiguation import is_disambiguation
from data_prep.corpora.dumps import DumpUnit, pages_of, split_dump
from data_prep.corpora.templates import TemplateTable, template_table
from data_prep.corpora.wikitext import Page, Site, is_too_nested, paragraphs

# It reports every unknown element of a page.
logging.getLogger("mwxml").setLevel(logging.ERROR)


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[DumpUnit]:
    """Yields the units of all dumps.

    Args:
        patterns: files or globs of `pages-articles` XML, plain or bzip2.
        options: unused.

    Raises:
        InputError: if a pattern matches nothing or a folder, or a file is not a dump.
    """
    for path in find_files(patterns):
        yield from split_dump(path)


def documents(unit: DumpUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yields the articles of a unit.

    Args:
        unit: pages of a dump.
        options: `keep_headings`, `keep_lists`, `templates`, and the language, which selects the
            templates if the dump does not name its own.
        counts: updated with what is read, with damaged pages, and with the numbers of pages that
            are not articles, by kind, and with unknown templates.
    """
    language = unit.site.language or options.language
    templates = template_table(language, options.templates, unit.site.templates)
    for xml in pages_of(unit, counts):
        # One page at a time, so that nothing else is lost with a damaged one.
        try:
            document = _article(xml, unit.site, templates, options, counts)
        except Exception:  # parsers may raise anything on arbitrary text
            counts.skipped += 1
            continue
        if document:
            counts.characters += sum(map(len, document.paragraphs))
            yield document


def _article(
    xml: bytes, site: Site, templates: TemplateTable, options: ReaderOptions, counts: Counts
) -> Document | None:
    page = next(mwxml.Dump.from_page_xml(io.StringIO(xml.decode())).pages)
    if page.namespace != 0:
        counts.left_out["pages of other namespaces"] += 1
        return None
    if page.redirect:
        counts.left_out["redirects"] += 1
        return None
    *_, revision = page  # the last one, if the dump contains the history
    if not revision.text:
        counts.left_out["articles without text"] += 1
        return None
    if is_disambiguation(page.title, revision.text):
        counts.left_out["disambiguation pages"] += 1
        return None
    if is_too_nested(revision.text):
        counts.left_out["articles with hundreds of unclosed tags, templates or tables"] += 1
        return None
    found = paragraphs(
        revision.text,
        Page(site, templates, page.title),
        options.keep_headings,
        options.keep_lists,
        counts,
    )
    if not found:
        counts.left_out["articles without text"] += 1
        return None
    return Document(page.title, site.name, found)
