"""The original's format."""

from __future__ import annotations

from data_prep.corpora import Counts, text


def test_blank_lines_stand_between_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf\n\none \r\ntwo\r\n\r\n \n\nthree")
    (tmp_path / "b.txt").write_text("four\n")
    counts = Counts()
    found = list(text.read([str(tmp_path / "*.txt")], counts))
    assert [document.paragraphs for document in found] == [["one", "two"], ["three"], ["four"]]
    assert [document.source for document in found] == ["a.txt", "a.txt", "b.txt"]
    assert len({document.name for document in found}) == 3
    assert counts.characters == len("onetwothreefour")
