"""Well-formed files with what a format allows but readers rarely expect: all of it is read."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.corpora import CORPUS_FORMATS
from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import make_output_documents, split_paragraphs
from tests.conftest import random_inputs
from tests.data_prep.corpora.test_wikipedia import dump, page
from tests.support.texts import read_corpus

pytestmark = [pytest.mark.integration, pytest.mark.hypothesis]

_OPTIONS = ExtractionOptions(output_file="out.txt")
# What XML cannot contain stands for markup while a page is read.
_MARKS = re.compile("[\x00-\x08\x0e-\x1f]")
_WORDS = (
    "The cat sat.", "l'eau", "我们。", "é", "😀", "3.14", "e.g.", "Mr. X", "= a =", "@-@", "<unk>",
)  # fmt: skip
# The control characters that readers mark places with, ends of lines, and what is not seen.
_CONTROLS = (*map(chr, range(32)), *"\x7f\x85\xa0\u1680\u2028\u2029\u200b\u2581\ufeff\ufffe\uffff")
_HALVES = ("\ud83d", "\ude00", "\ud83d\ude00", "\ude00\ud83d", "\udcff")
_NUMBERS = (*range(32), 0x80, 0x85, 0xA0, 0xD83D, 0xDE00, 0xDCFF, 0xFFFE, 0x1F600, 0x110000, 10**12)
_ENTITIES = tuple(
    [f"&#{n};" for n in _NUMBERS]
    + [f"&#x{n:X};" for n in _NUMBERS]
    + ["&nbsp;", "&lt;", "&amp;#6;", "&amp;lt;", "&zwj;", "&shy;", "&bogus;", "&#;", "&#x;", "&"]
)

words = st.sampled_from(_WORDS)
characters = words | st.sampled_from(_CONTROLS) | st.characters(exclude_categories=["Cs"])
halves = characters | st.sampled_from(_HALVES)


def _joined(parts: st.SearchStrategy[str], separator: str = "") -> st.SearchStrategy[str]:
    return st.lists(parts, max_size=8).map(separator.join)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Put wiki text into markup of any kind, also where it does not belong, or half of it."""
    text = _joined(inner)
    names = "ref|math|nowiki|sub|sup|div|p|b|li|table|td|gallery|pre|chem|br|ruby|section|poem|!--"
    wrappers = [f"<{name}>%s</{name}>" for name in names.split("|")]
    wrappers += [
        "{{convert|%s|km}}", "{{unknown %s}}", "{{lang|de|%s}}", "{{#if:%s|a|b}}", "{{{%s|x}}}",
        "{{formatnum:%s}}", "{{nihongo|%s|%s}}", "{{frac|%s}}", "{{as of|%s|1}}", "{{age|%s}}",
        "[[%s]]", "[[a|%s]]", "[[File:a.jpg|thumb|%s]]", "[http://x.org %s]", "''%s''", "-{%s}-",
        "== %s ==", "\n* %s\n", "\n: %s\n", "\n{|\n| %s\n|}\n", "<!-- %s -->", "\n %s\n", "__%s__",
        # Halves
        "{{%s", "%s}}", "[[%s", "%s]]", "<b>%s", "%s</div>", "{|\n|%s", "<math>\\frac{%s}", "(%s)",
    ]  # fmt: skip
    return st.builds(
        lambda wrapper, text: wrapper.replace("%s", text), st.sampled_from(wrappers), text
    )


# XML cannot contain other control characters, nor halves of a pair.
_xml_characters = (words | st.characters(exclude_categories=["Cs", "Cc"])).filter(
    lambda text: not set(text) & {"\ufffe", "\uffff"}
)
wiki_text = _joined(
    st.recursive(_xml_characters | st.sampled_from(_ENTITIES), _nested, max_leaves=12)
)


def _rows(text: str, title: str) -> bytes:
    return (json.dumps({"text": text, "title": title}) + "\n").encode()


def _csv(text: str) -> bytes:
    quoted = text.replace('"', '""')
    return f'title,text\nt,"{quoted}"\n'.encode()


class Grammar(NamedTuple):
    """Files of a format.

    Attributes:
        file: name of the file.
        contents: strategy of its content.
        format: name of the corpus format.
        is_valid: whether every file is one that the format allows, of which nothing is left out.
    """

    file: str
    contents: st.SearchStrategy[bytes]
    format: str
    is_valid: bool = True


def _encoded(parts: st.SearchStrategy[str], make: Callable[[str], bytes] = str.encode):
    return _joined(parts).map(make)


lines = characters | st.sampled_from(("\n", "\n\n", "\r\n", "\r", " = T = \n", " = = S = = \n"))
passages = st.builds(
    lambda title, text: json.dumps(
        {"data": [{"title": title, "paragraphs": [{"context": text, "qas": []}]}]}
    ).encode(),
    _joined(halves),
    _joined(halves),
)
GRAMMARS = {
    "wikipedia": Grammar("a.xml", wiki_text.map(lambda text: dump([page("T", text)])), "wikipedia"),
    "jsonl": Grammar("a.jsonl", st.builds(_rows, _joined(halves), _joined(halves)), "table"),
    "csv": Grammar("a.csv", _encoded(characters, _csv), "table"),
    "tsv": Grammar(
        "a.tsv", _encoded(lines, lambda text: b"text\n" + text.encode()), "table", False
    ),
    "text": Grammar("a.txt", _encoded(lines), "text"),
    "books": Grammar("a.txt", _encoded(lines), "books"),
    "wikitext": Grammar(
        "a.tokens", _encoded(lines, lambda text: b" = Title = \n" + text.encode()), "wikitext"
    ),
    "reading_sets": Grammar("a.json", passages, "reading_sets"),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_a_grammar_gives_is_read(tmp_path, name):
    grammar = GRAMMARS[name]
    path = tmp_path / grammar.file
    has_sentences = CORPUS_FORMATS[grammar.format].has_sentences

    @random_inputs(25)
    @given(grammar.contents)
    def read(content):
        path.write_bytes(content)
        documents, counts = read_corpus(grammar.format, path)
        for document in documents:
            split = split_paragraphs(document, _OPTIONS, has_sentences, counts)
            parts = [paragraph.sentences for paragraph in split]
            for output in make_output_documents(document, parts, 1, _OPTIONS):
                assert output.text.count(b"\n") == output.sentences
                assert not re.search("[\t\r\n]", output.name + output.source)
                assert name != "wikipedia" or not _MARKS.search(output.text.decode())
        assert not (grammar.is_valid and counts.skipped)

    read()
