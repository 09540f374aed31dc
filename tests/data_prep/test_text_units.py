"""A corpus in units: every document is read once, for any ranges."""

import gzip
import io
import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep import text_units
from data_prep.text_units import (
    MAX_LINE_BYTES,
    TextUnit,
    in_parts,
    is_blank,
    read_unit,
    split_into_units,
    stripped,
)
from tests.conftest import random_inputs
from tests.support.texts import COMPRESS

# White space of ASCII and beyond, alone and around text.
LINES = st.lists(
    st.sampled_from([
        "", " ", "one", "two words", "ünï — 中文", "\t", "\u3000", "\u00a0 \u2003", "\ufeff\u200e",
        "\x1c", "\u0085\t", "\u3000あ\u00a0", "\u200b", "\u2028x",
    ]),
    max_size=40,
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def read(path, length: int, counts: Counter | None = None, document_sentences: int = 0) -> list:
    size = path.stat().st_size
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    counts = Counter() if counts is None else counts
    return [
        document
        for begin, end in ranges
        for document in read_unit(TextUnit(str(path), 0, begin, end), counts, document_sentences)
    ]


@random_inputs(80)
@given(lines=LINES, end=ENDS, last=st.booleans(), mark=st.booleans(), length=st.integers(1, 60))
def test_units_of_any_length_contain_every_document_once(
    tmp_path_factory, lines, end, last, mark, length
):
    path = tmp_path_factory.mktemp("units") / "in.txt"
    text = end.join(lines) + (end if last else "")
    path.write_bytes(("\ufeff" * mark + text).encode())
    documents = read(path, length)
    text = "\n".join(map(stripped, path.read_text("utf-8-sig").split("\n")))
    expected = [block.split("\n") for block in re.split("\n{2,}", text.strip("\n")) if block]
    assert [document.sentences for document in documents] == expected
    # Where a document begins is the same, whichever unit it was read in.
    whole = read(path, max(1, path.stat().st_size))
    assert documents == whole
    for document in documents:
        rest = path.read_bytes()[document.offset :].decode("utf-8-sig")
        line = io.StringIO(rest, newline=None).readline()
        assert line.strip() == document.sentences[0]


@pytest.mark.integration
def test_lines_are_blank_where_nothing_can_be_seen():
    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    blank = {c for c in characters if c != "\n" and is_blank(f" {c}\u3000".encode())}
    assert blank >= set("\u200b\u200e\u2060\ufeff\u00ad\u061c\u180e\u3164\ufe0f\u2800\0\x85")
    assert all(not c.strip() or unicodedata.category(c) in HIDDEN or c == "\u2800" for c in blank)
    assert len(blank) < 5000
    for line in ("\u200ba", "a\u200b", "\u0301", "\ufffd", "\u00ad-", "\U0001f600\ufe0f"):
        assert not is_blank(line.encode())


HIDDEN = {"Cf", "Cc", "Mn", "Lo", "Cn"}  # a few of the last three, which Unicode calls ignorable


@given(
    lines=LINES,
    ending=st.sampled_from([*COMPRESS]),
    members=st.integers(0, 2),
    length=st.integers(1, 60),
    sentences=st.sampled_from([0, 0, 3]),
)
def test_compressed_text_is_the_text(tmp_path_factory, lines, ending, members, length, sentences):
    folder = tmp_path_factory.mktemp("units")
    plain, compressed = folder / "in.txt", folder / f"in.txt{ending}"
    parts = ["\ufeff" + "\n".join(lines), "\n\ntwo\n\n", "more"][: members + 1]
    plain.write_text("".join(parts), "utf-8")
    # Files of several members, as `cat a.gz b.gz` makes them.
    compressed.write_bytes(b"".join(COMPRESS[ending](part.encode()) for part in parts))
    expected = read(plain, plain.stat().st_size, document_sentences=sentences)
    (unit,) = split_into_units([str(compressed)])
    counts = Counter()
    assert list(read_unit(unit, counts, sentences)) == expected
    assert counts["decompressed_bytes"] == plain.stat().st_size
    parts = list(in_parts(unit, length, sentences))
    assert sum(part.end - part.begin for part in parts) == compressed.stat().st_size
    found = [document for part in parts for document in read_unit(part, Counter(), sentences)]
    if sentences:  # the last document of every part may be shorter
        found, expected = ([s for d in each for s in d.sentences] for each in (found, expected))
    assert found == expected


def test_parts_of_compressed_text_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(text_units, "MAX_DOCUMENT_BYTES", 2_000)
    path = tmp_path / "in.txt.gz"
    lines = [f"line {number}" for number in range(5_000)]  # a single document
    path.write_bytes(gzip.compress("\n".join(["x" * 3 * MAX_LINE_BYTES, *lines]).encode()))
    (unit,) = split_into_units([str(path)])
    parts = list(in_parts(unit, 1_000))
    assert max(sum(len(line) for _, line, _ in part.lines) for part in parts[1:]) < 3_100
    counts = Counter()
    found = [document for part in parts for document in read_unit(part, counts)]
    assert [sentence for document in found for sentence in document.sentences] == lines
    assert counts["skipped_lines"] == 1


@pytest.mark.parametrize("ending", [*COMPRESS])
def test_damaged_compressed_text_is_reported(tmp_path, ending):
    content = COMPRESS[ending]("".join(f"line {n * n}\n" for n in range(9_000)).encode())
    path = tmp_path / f"in.txt{ending}"
    half = len(content) // 2
    for damaged, message in (
        (content[:half], "damaged or truncated"),
        (content[:half] + bytes(40) + content[half + 40 :], "damaged or truncated"),
        (b"plain text\n" * 99, f"not a {ending} file, although its name ends so; rename it"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"^{path}: {message}") as error:
            list(read_unit(*split_into_units([str(path)]), Counter()))
        assert "\n" not in str(error.value)
    (tmp_path / "in.txt").write_bytes(content)
    message = rf"in\.txt: line 1 is not UTF-8 .*; it is compressed; add {ending} to its name"
    with pytest.raises(InputError, match=message):
        read(tmp_path / "in.txt", len(content))


@given(lines=LINES, length=st.integers(1, 60), sentences=st.integers(1, 5))
def test_a_document_can_be_a_number_of_lines(tmp_path_factory, lines, length, sentences):
    path = tmp_path_factory.mktemp("units") / "in.txt"
    path.write_text("\n".join(lines), "utf-8")
    documents = read(path, length, document_sentences=sentences)
    expected = list(filter(None, map(stripped, lines)))
    assert [sentence for document in documents for sentence in document.sentences] == expected
    for document in documents:
        assert 0 < len(document.sentences) <= sentences
        line = path.read_bytes()[document.offset :].decode().split("\n")[0]
        assert line.strip() == document.sentences[0]
        unit_end = (document.offset // length + 1) * length
        following = [d.offset for d in documents if document.offset < d.offset < unit_end]
        assert len(document.sentences) == sentences or not following, "only the last is shorter"


@pytest.mark.integration
@pytest.mark.parametrize(("sentences", "most"), [(1000, 1.05), (0, 2.05)])
def test_text_without_blank_lines_is_not_read_again_and_again(
    tmp_path, monkeypatch, sentences, most
):
    path = tmp_path / "in.txt"
    path.write_text("usually , he would be tearing around the living room .\n" * 200_000)
    size, read_bytes = path.stat().st_size, 0

    class Counted(io.FileIO):
        def read(self, count):
            nonlocal read_bytes
            content = super().read(count)
            read_bytes += len(content)
            return content

    monkeypatch.setattr("albert_tf.files.compression.open_file", Counted)
    documents = read(path, 1_000_000, document_sentences=sentences)
    assert read_bytes < most * size
    assert sum(len(document.sentences) for document in documents) == 200_000


@pytest.mark.integration
def test_long_lines_are_skipped_and_counted(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"before\n" + b"x" * 50_000_000 + b"\nafter\n\n" + b"y " * 700_000)
    counts = Counter()
    documents = read(path, 10_000_000, counts)
    assert [document.sentences for document in documents] == [["before", "after"]]
    assert counts == {"skipped_lines": 2}


def test_long_documents_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(text_units, "MAX_DOCUMENT_BYTES", 100)
    path = tmp_path / "in.txt"
    lines = [f"This is line {number:03d}." for number in range(50)]
    path.write_text("\n".join(lines) + "\n\nshort\n")
    documents = read(path, 300)
    assert sum((document.sentences for document in documents), []) == [*lines, "short"]
    assert all(sum(map(len, document.sentences)) <= 100 for document in documents)
    assert [d.offset for d in documents] == sorted({d.offset for d in documents})
    assert documents[-1].sentences == ["short"]


@pytest.mark.parametrize("length", [5, 1000])
def test_invalid_utf_8_is_reported_with_its_line(tmp_path, length):
    path = tmp_path / "in.txt"
    path.write_bytes(b"one\ntwo\n\nthree\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"in\.txt: line 5 is not UTF-8 .*0xe9"):
        read(path, length)


def test_the_size_of_units_depends_on_the_corpus(tmp_path, monkeypatch):
    paths = []
    for number, size in enumerate((250, 0, 100)):
        paths.append(str(tmp_path / f"{number}.txt"))
        (tmp_path / f"{number}.txt").write_bytes(b"x" * size)
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 100)
    found = split_into_units(paths)
    assert [(unit.file, unit.begin, unit.end) for unit in found] == [
        (0, 0, 100), (0, 100, 200), (0, 200, 250), (2, 0, 100),
    ]  # fmt: skip
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 1)
    monkeypatch.setattr(text_units, "_UNITS", 5)
    assert {unit.end - unit.begin for unit in split_into_units(paths)} == {70, 40, 30}
    monkeypatch.setattr(text_units, "_MAX_UNIT_BYTES", 20)
    assert len(split_into_units(paths)) == 13 + 5
