"""A corpus in units: every document is read once, for any ranges."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf import files
from albert_tf.errors import InputError
from data_prep import text_units
from data_prep.corpora.text import read_documents
from data_prep.text_units import TextUnit, read_unit, split_into_units

LINES = st.lists(st.sampled_from(["", " ", "one", "two words", "ünï — 中文", "\t"]), max_size=40)
ENDS = st.sampled_from(["\n", "\r\n"])


def read(path, length: int, counts: Counter | None = None, document_sentences: int = 0) -> list:
    size = path.stat().st_size
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    counts = Counter() if counts is None else counts
    return [
        document
        for begin, end in ranges
        for document in read_unit(TextUnit(str(path), 0, begin, end), counts, document_sentences)
    ]


@settings(deadline=None, max_examples=200)
@given(lines=LINES, end=ENDS, last=st.booleans(), mark=st.booleans(), length=st.integers(1, 60))
def test_units_of_any_length_contain_every_document_once(
    tmp_path_factory, lines, end, last, mark, length
):
    path = tmp_path_factory.mktemp("units") / "in.txt"
    text = end.join(lines) + (end if last else "")
    path.write_bytes(("\ufeff" * mark + text).encode())
    documents = read(path, length)
    assert [document.sentences for document in documents] == list(read_documents(str(path)))
    # Where a document begins is the same, whichever unit it was read in.
    whole = read(path, max(1, path.stat().st_size))
    assert documents == whole
    for document in documents:
        line = path.read_bytes()[document.offset :].decode("utf-8-sig").split("\n")[0]
        assert line.strip() == document.sentences[0]


@settings(deadline=None)
@given(lines=LINES, chunk=st.integers(1, 30))
def test_the_size_of_reads_does_not_matter(tmp_path_factory, lines, chunk):
    path = tmp_path_factory.mktemp("units") / "in.txt"
    path.write_text("\n".join(lines), "utf-8")
    expected = read(path, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_units, "_CHUNK_BYTES", chunk)
        assert read(path, 20) == expected


@settings(deadline=None)
@given(lines=LINES, length=st.integers(1, 60), sentences=st.integers(1, 5))
def test_a_document_can_be_a_number_of_lines(tmp_path_factory, lines, length, sentences):
    path = tmp_path_factory.mktemp("units") / "in.txt"
    path.write_text("\n".join(lines), "utf-8")
    documents = read(path, length, document_sentences=sentences)
    assert sum((document.sentences for document in documents), []) == [
        line.strip() for line in lines if line.strip()
    ]
    for document in documents:
        assert 0 < len(document.sentences) <= sentences
        line = path.read_bytes()[document.offset :].decode().split("\n")[0]
        assert line.strip() == document.sentences[0]
        unit_end = (document.offset // length + 1) * length
        following = [d.offset for d in documents if document.offset < d.offset < unit_end]
        assert len(document.sentences) == sentences or not following, "only the last is shorter"


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

    monkeypatch.setattr(files, "open_file", lambda path, mode: Counted(path, mode))
    documents = read(path, 1_000_000, document_sentences=sentences)
    assert read_bytes < most * size
    assert sum(len(document.sentences) for document in documents) == 200_000


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
