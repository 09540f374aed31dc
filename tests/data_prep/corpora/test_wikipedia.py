"""Dumps: every article once, for any compression, units and damage."""

import bz2
import gzip
import html
import pathlib
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep.corpora import dumps
from data_prep.corpora.base import Document
from tests.conftest import random_inputs
from tests.support.texts import COMPRESS, read_corpus

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>dewiki</dbname>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="-2" case="first-letter">Medium</namespace>
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""


def page(title: str, text: str, ns: int = 0, extra: str = "") -> str:
    return f"""  <page>
    <title>{html.escape(title)}</title>
    <ns>{ns}</ns>
    <id>1</id>{extra}
    <revision>
      <id>2</id>
      <timestamp>2014-10-26T04:50:23Z</timestamp>
      <contributor><username>A</username><id>3</id></contributor>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text xml:space="preserve">{html.escape(text)}</text>
    </revision>
  </page>
"""


def dump(pages: list[str]) -> bytes:
    return (HEADER + "".join(pages) + "</mediawiki>\n").encode()


MARKUP = r"\{\{|\}\}|\[\[|\]\]|\|\}|\{\||<ref|style=|<!--|\(\)|\( ?[;,]|''|__"

ARTICLES = [
    page(f"Artikel {n}", f"'''Text''' von [[Artikel {n}|{n}]] – ä.\n\n" * (n % 9 + 1))
    for n in range(30)
]
TITLES = [f"Artikel {n}" for n in range(30)]


def streams(xml: bytes, length: int) -> bytes:
    """As `pbzip2` does: streams end anywhere, also inside pages and tags."""
    return b"".join(bz2.compress(xml[i : i + length]) for i in range(0, len(xml), length))


def titles(path) -> list[str]:
    return [document.name for document in read_corpus("wikipedia", path)[0]]


def test_only_articles_are_kept(tmp_path):
    (tmp_path / "dump.xml").write_bytes(
        dump(
            [
                page("A &amp; B", "Er sagte: <b>ja</b>.[[Kategorie:X]][[Datei:X.png|mini|Bild]]"),
                page("Weiter", "#WEITERLEITUNG [[A]]", extra='\n    <redirect title="A" />'),
                page("Diskussion:A", "Text.", ns=1),
                page("Liste", "* nur\n* Liste"),
                page("Mehrdeutig", "Text.\n{{Begriffsklärung}}"),
                page("Leer", ""),
                page("Seltsam", "Text.").replace("</ns>", "</sn>"),
                page("Z", "[[Medium:Z.ogg|Letzter]]."),
                page("Modul", "return {}").replace(">wikitext<", ">Scribunto<"),
                page("Daten", "{}").replace(">wikitext<", ">json<"),
            ]
        )
    )
    documents, counts = read_corpus("wikipedia", tmp_path / "*.xml")
    assert [document[:3] for document in documents] == [
        ("A &amp; B", "dewiki", ["Er sagte: ja."]),
        ("Z", "dewiki", ["Letzter."]),
    ]
    assert counts.left_out == {
        "redirects": 1,
        "pages of other namespaces": 1,
        "articles without text": 2,
        "disambiguation pages": 1,
        "pages that are not wikitext": 2,
    }
    assert counts.skipped == 1
    assert counts.warnings == []
    assert counts.input_bytes == (tmp_path / "dump.xml").stat().st_size
    documents, _ = read_corpus("wikipedia", tmp_path / "*.xml", keep_lists=True)
    assert Document("Liste", "dewiki", ["nur", "Liste"]) in documents


@pytest.mark.integration
@random_inputs(50)
@given(
    length=st.integers(200, 60_000),
    unit=st.integers(50, 30_000),
    chunk=st.integers(10, 5000),
    form=st.sampled_from(["xml", "one stream", "streams"]),
)
def test_every_article_is_read_once_for_any_units(tmp_path_factory, length, unit, chunk, form):
    xml = dump(ARTICLES)
    path = tmp_path_factory.mktemp("dump") / "dump.xml.bz2"
    content = {"xml": xml, "one stream": bz2.compress(xml), "streams": streams(xml, length)}[form]
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dumps, "_MIN_RANGE_BYTES", unit)
        patch.setattr(dumps, "_MAX_RANGE_BYTES", unit)
        patch.setattr(dumps, "_XML_BYTES_PER_UNIT", unit)
        patch.setattr(dumps, "_CHUNK_BYTES", chunk)
        documents, counts = read_corpus("wikipedia", path)
    assert [document.name for document in documents] == TITLES
    assert documents[1].paragraphs == ["Text von 1 – ä."] * 2
    assert (counts.skipped, counts.warnings) == (0, [])
    assert counts.input_bytes == len(content)


@pytest.mark.parametrize("length", range(2500, 3500, 100))
def test_only_damaged_pages_are_lost(tmp_path, monkeypatch, length):
    monkeypatch.setattr(dumps, "_MIN_RANGE_BYTES", 500)
    content = bytearray(streams(dump(ARTICLES), length))
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(content)
    whole = read_corpus("wikipedia", path)[0]
    middle = len(content) // 2
    content[middle : middle + 5] = b"\0\0\0\0\0"
    path.write_bytes(content)
    documents, counts = read_corpus("wikipedia", path)
    assert all(document in whole for document in documents), "two pages taken for one"
    assert len(whole) - 15 < len(documents) < len(whole)
    (warning,) = counts.warnings
    assert re.match(rf"{re.escape(str(path))} is damaged in the bzip2 stream .* \d+", warning)


def test_text_around_damage_is_not_one_page(tmp_path):
    """The start of one page and the end of another one, cut inside their texts."""
    xml = dump(ARTICLES).decode()
    cuts = [xml.index(f"[[Artikel {n}|") for n in (3, 5)]
    parts = [xml[: cuts[0]], xml[cuts[0] : cuts[1]], xml[cuts[1] :]]
    first, damaged, last = (bytearray(bz2.compress(part.encode())) for part in parts)
    damaged[30:40] = b"\0" * 10
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(first + damaged + last)
    assert titles(path) == TITLES[:3] + TITLES[6:]


def test_entities_of_a_dump_are_not_expanded(tmp_path):
    """Nested entities ("a billion laughs") would turn a kilobyte into gigabytes."""
    entities = (f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    doctype = f'<!DOCTYPE mediawiki [<!ENTITY l0 "ha"> {"".join(entities)}]>'
    bomb = page("Bombe", "Text.").replace("Text.", "&l9;")
    inside = page("Innen", "Text.").replace("<page>", f"<page>{doctype}")
    content = dump([bomb, inside, *ARTICLES[:3]])
    (tmp_path / "dump.xml").write_bytes(f'<?xml version="1.0"?>{doctype}'.encode() + content)
    documents, counts = read_corpus("wikipedia", tmp_path / "dump.xml")
    assert [document.name for document in documents] == TITLES[:3]
    assert counts.skipped == 2


@pytest.mark.parametrize("unit", [20, 200, 10_000])
def test_only_a_page_with_damaged_xml_is_lost(tmp_path, monkeypatch, unit):
    monkeypatch.setattr(dumps, "_MIN_RANGE_BYTES", unit)
    monkeypatch.setattr(dumps, "_MAX_RANGE_BYTES", unit)
    pages = list(ARTICLES)
    pages[10] = pages[10].replace("</text>", "")
    pages[15] = pages[15].replace("</page>", "")
    pages[20] = pages[20].replace("Text", "\x01")
    pages[25] = pages[25].replace("<id>2</id>", "<id>two</id>")
    (tmp_path / "dump.xml").write_bytes(dump(pages).replace("– ä".encode(), b"\xff", 1))
    documents, counts = read_corpus("wikipedia", tmp_path / "dump.xml")
    found = [document.name for document in documents]
    assert len(set(found)) == len(found)
    lost = [title for title in TITLES if title not in found]
    assert lost == [f"Artikel {n}" for n in (0, 10, 15, 20, 25)]
    assert counts.skipped == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello", "not the XML of a wiki dump"),
        (b"<html></html>", "not the XML of a wiki dump"),
        (bz2.compress(b"hello"), "not the XML of a wiki dump"),
        (b"BZh9 and not really", "damaged at its start"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive; unpack it"),
        (gzip.compress(b"hello", mtime=0), "compressed by gzip; add .gz to its name"),
    ],
)
def test_a_file_that_is_not_a_dump_is_reported(tmp_path, content, message):
    (tmp_path / "dump.xml.bz2").write_bytes(content)
    with pytest.raises(InputError, match=rf"`input_file`=.*dump\.xml\.bz2: {message}.*; must be"):
        titles(tmp_path / "dump.xml.bz2")


def test_a_page_without_end_is_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "_MAX_PAGE_BYTES", 10_000)
    monkeypatch.setattr(dumps, "_CHUNK_BYTES", 1000)
    pages = [*ARTICLES[:3], page("Lang", "Text. " * 10_000), *ARTICLES[3:]]
    (tmp_path / "dump.xml").write_bytes(dump(pages))
    documents, counts = read_corpus("wikipedia", tmp_path / "dump.xml")
    assert [document.name for document in documents] == TITLES
    assert counts.skipped == 1


@pytest.mark.integration
def test_the_articles_of_a_real_dump(shared):
    path = next(pathlib.Path(shared("data/wikipedia")).glob("*.bz2"))
    documents, counts = read_corpus("wikipedia", path)
    articles = 206 - sum(
        counts.left_out[reason]
        for reason in ("redirects", "pages of other namespaces", "disambiguation pages")
    )
    assert articles > 90
    assert len(documents) >= 0.95 * articles
    assert counts.skipped == 0
    for document in documents:
        text = "\n".join(document.paragraphs)
        left = re.search(MARKUP, text)
        assert not left, (document.name, text[left.start() - 50 : left.end() + 50])
    by_name = {document.name: " ".join(document.paragraphs) for document in documents}
    assert by_name["Albert Einstein"].startswith(
        "Albert Einstein (14 March 1879 – 18 April 1955) was a German-born theoretical physicist."
    )
    assert "The highest official temperature was 50.6 °C at In Salah." in by_name["Algeria"]
    assert sum(map(len, by_name.values())) > 2_000_000


@pytest.mark.parametrize("is_raw", [False, True])
def test_entities_that_are_no_characters(tmp_path, is_raw):
    text = "Joy &#xD83D;&#xDE00; or &#xD83D; half&#6;&#x1f;&#3; or &#55357; &amp;#6;."
    xml = dump([page("A", text)])
    (tmp_path / "a.xml").write_bytes(xml.replace(b"&amp;#", b"&#") if is_raw else xml)
    (document,), counts = read_corpus("wikipedia", tmp_path / "a.xml")
    assert document.paragraphs == ["Joy \U0001f600 or \ufffd half or \ufffd &#6;."]
    assert not counts.skipped


COMPRESSIONS = {  # and the share of the pages that are in a block which a cut makes unreadable
    "": (bytes, 0.02),
    ".gz": (gzip.compress, 0.03),
    ".xz": (COMPRESS[".xz"], 0.03),
    ".bz2": (lambda xml: bz2.compress(xml, 1), 0.3),  # blocks of 100 kB
    ".streams.bz2": (lambda xml: streams(xml, 20_000), 0.15),
    ".zst": (COMPRESS[".zst"], 0.3),  # of 128 KiB
}


@pytest.mark.integration
@pytest.mark.parametrize("share", [0.4, 0.999])
@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_dump_may_be_compressed_and_cut_off(tmp_path, monkeypatch, ending, share):
    monkeypatch.setattr(dumps, "_XML_BYTES_PER_UNIT", 50_000)
    monkeypatch.setattr(dumps, "_MIN_RANGE_BYTES", 1000)
    compress, lost = COMPRESSIONS[ending]
    names = [f"Artikel {n}" for n in range(200)]
    draw = random.Random(0)
    texts = [draw.randbytes(1000).hex() + " Satz." for _ in names]
    path = tmp_path / f"a.xml{ending}"
    path.write_bytes(compress(dump([*map(page, names, texts)])))
    found, counts = read_corpus("wikipedia", path)
    assert [document.name for document in found] == names
    assert not counts.warnings
    assert counts.input_bytes == path.stat().st_size
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    found, counts = read_corpus("wikipedia", path)
    assert [document.name for document in found] == names[: len(found)]
    assert 200 * (share - lost) < len(found) < 200 * share + 2
    assert counts.skipped <= 1
    assert f"{path} is cut off; the pages before its end are used" in counts.warnings
