"""Books as plain text, however their lines are wrapped."""

from __future__ import annotations

import textwrap

import pytest

from albert_tf.errors import InputError
from data_prep.corpora import books
from tests.data_prep.corpora.reading import read

PARAGRAPHS = [
    "It was the best of times, it was the worst of times. " * 3,
    '"Indeed?" said he.',
    "There were a king with a large jaw and a queen with a plain face, on the throne. " * 4,
    "In both countries it was clearer than crystal that things were settled for ever. " * 5,
] * 10
PARAGRAPHS = [paragraph.strip() for paragraph in PARAGRAPHS]


def wrapped(paragraph: str) -> str:
    return "\n".join(textwrap.wrap(paragraph, 70))


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(map(wrapped, PARAGRAPHS)),
        "\n\n\n".join(PARAGRAPHS),
        "\n".join(PARAGRAPHS),
        "\r\n\r\n".join(wrapped(p).replace("\n", " \r\n") for p in PARAGRAPHS),
        "\ufeff" + "\n\n* * *\n\n".join(map(wrapped, PARAGRAPHS)) + "\n\n-----\n",
    ],
    ids=["wrapped", "a line each, blank lines between", "a line each", "CRLF", "ornaments"],
)
def test_paragraphs_do_not_depend_on_line_breaks(tmp_path, text):
    (tmp_path / "book.txt").write_bytes(text.encode())
    (document,), counts = read("books", [str(tmp_path)])
    assert document.paragraphs == PARAGRAPHS
    assert document.source == "book.txt"
    assert counts.characters == sum(map(len, PARAGRAPHS))


def test_wrapped_text_without_blank_lines_is_split_where_a_line_had_room():
    found = books.paragraphs("\n".join(map(wrapped, PARAGRAPHS)).split("\n"))
    assert " ".join(found) == " ".join(PARAGRAPHS)
    assert set(found) & set(PARAGRAPHS)
    assert len(found) > len(PARAGRAPHS) * 0.7


def test_the_frame_of_project_gutenberg_is_removed():
    lines = [
        "The Project Gutenberg eBook of Emma",
        "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***",
        "Emma Woodhouse, handsome, clever, and rich.",
        "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***",
        "License text",
    ]
    assert books.without_frame(lines) == lines[2:3]
    assert books.without_frame(lines[2:3]) == lines[2:3]


def test_a_file_that_is_not_utf_8_is_reported(tmp_path):
    (tmp_path / "latin.txt").write_bytes("Café\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt: line 1 is not UTF-8.*iconv"):
        read("books", [str(tmp_path)])


def test_a_folder_without_texts_is_reported(tmp_path):
    with pytest.raises(InputError, match="`input_file`: no file matches"):
        read("books", [str(tmp_path)])


def test_real_books(shared):
    folder = shared("data/books")
    names = ["Woolf_Night_1919.txt", "Trollope_Phineas_1869.txt", "Doyle_Lost_1912.txt"]
    for document in read("books", [str(folder / name) for name in names])[0]:
        lengths = [len(paragraph) for paragraph in document.paragraphs]
        assert max(lengths) < 15_000
        assert 100 < sum(lengths) / len(lengths) < 1500
        # Words were not run together where lines were joined.
        assert not any(
            "\ufeff" in paragraph or "  " in paragraph for paragraph in document.paragraphs
        )
