"""A corpus in units: every document is read once, for any ranges."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep import text_units
from data_prep.corpora.text import read_documents
from data_prep.text_units import TextUnit, read_unit, split_into_units

LINES = st.lists(st.sampled_from(["", " ", "one", "two words", "ünï — 中文", "\t"]), max_size=40)
ENDS = st.sampled_from(["\n", "\r\n"])


def read(path, length: int, counts: Counter | None = None) -> list:
    size = path.stat().st_size
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    counts = Counter() if counts is None else counts
    return [
        document
        for begin, end in ranges
        for document in read_unit(TextUnit(str(path), 0, begin, end), counts)
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
