"""The original's format."""

import pytest

from albert_tf.errors import InputError
from data_prep.corpora import text
from data_prep.corpora.base import ReaderOptions
from tests.data_prep.corpora.reading import read


def test_blank_lines_separate_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf\n\none \r\ntwo\r\n\r\n \n\nthree")
    (tmp_path / "b.txt").write_text("four\n")
    found, counts = read("text", [str(tmp_path / "*.txt")])
    assert [document.paragraphs for document in found] == [["one", "two"], ["three"], ["four"]]
    assert [document.source for document in found] == ["a.txt", "a.txt", "b.txt"]
    assert [document.name for document in found] == ["a.txt:5", "a.txt:21", "b.txt:0"]
    assert counts.characters == len("onetwothreefour")


def test_units_of_any_length_give_the_same_documents(tmp_path, monkeypatch):
    blocks = [f"This is text {n}.\n" * (n % 7) for n in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(blocks))
    whole = read("text", [str(tmp_path / "a.txt")])
    monkeypatch.setattr(text, "_UNIT_BYTES", 100)
    assert read("text", [str(tmp_path / "a.txt")]) == whole


def test_a_document_can_be_a_number_of_lines(tmp_path):
    (tmp_path / "books_large_p1.txt").write_text("".join(f"line {n} .\n" for n in range(7)))
    found, counts = read("text", [str(tmp_path / "*")], ReaderOptions(document_sentences=3))
    assert [len(document.paragraphs) for document in found] == [3, 3, 1]
    assert [document.name for document in found] == [
        f"books_large_p1.txt:{offset}" for offset in (0, 27, 54)
    ]
    assert not counts.warnings


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        ("word " * 600 + "\n", "most lines have more than 500 words"),
        ("a line\n\n" * 30, "most documents are a single line"),
        (("a line\n" * 3 + "\n") * 30, None),
        ("a line\n\n" * 5, None),  # too few to tell
    ],
)
def test_text_that_seems_to_be_in_another_format(tmp_path, content, warning):
    (tmp_path / "a.txt").write_text(content)
    _, counts = read("text", [str(tmp_path / "*")])
    assert len(counts.warnings) == (warning is not None)
    assert warning is None or f"{tmp_path}/a.txt: {warning}" in counts.warnings[0]


def test_a_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="`input_file`=.*: is a folder"):
        read("text", [str(tmp_path)])
