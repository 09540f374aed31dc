"""Books as plain text, however their lines are wrapped."""

import textwrap

import pytest

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
        "\r\r".join(wrapped(p).replace("\n", "\r") for p in PARAGRAPHS),
        "\ufeff" + "\n\n* * *\n\n".join(map(wrapped, PARAGRAPHS)) + "\n\n-----\n",
    ],
    ids=["wrapped", "a line each, blank lines between", "a line each", "CRLF", "CR", "ornaments"],
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


START = "*** START OF THE PROJECT GUTENBERG EBOOK {} ***"
END = "*** END OF THE PROJECT GUTENBERG EBOOK {} ***"
QUOTED = "End of the Project Gutenberg EBook, it said."
FIN = "Fin de Project Gutenberg"
FULL_LICENSE = "*** START: FULL LICENSE ***"
OLD_START = "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***"
OLD_END = "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*"
HEADER = "The Project Gutenberg eBook of Emma"
ONE, TWO = (
    [line for n in range(60) for line in (f"{name} is in line {n}.", "")]
    for name in ("Emma", "Tom")
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (ONE, [ONE]),
        ([HEADER, START.format("EMMA"), *ONE, END.format("EMMA"), "License"], [ONE]),
        ([HEADER, START.format("EMMA,")[:-4], "OR", "A GIRL ***", *ONE], [ONE]),
        (["*** START OF THIS PROJECT GUTENBERG", "ETEXT EMMA***", *ONE], [ONE]),
        ([HEADER, "***START OF THE PROJECT GUTENBERG EBOOK EMMA", *ONE], [ONE]),
        ([*ONE, "End of Project Gutenberg's Emma, by X", "", END, "License"], [ONE]),
        ([START, *ONE, "Ende dieses Project Gutenberg Etextes Emma"], [ONE]),
        ([HEADER, OLD_START, "By using this etext", OLD_END, *ONE, "End of The Project Gutenberg"
          " Etext of Emma"], [ONE]),
        ([START, *ONE[:20], OLD_START, "By using", OLD_END, ""], [ONE[:20]]),
        ([OLD_START, "By", OLD_END, "EMMA", START, "X typed", OLD_START, OLD_END, *ONE], [ONE]),
        ([START, *ONE, END, "License", HEADER, START, *TWO, END, "License"], [ONE, TWO]),
        ([OLD_START, "a", OLD_END, *ONE, "End of Project Gutenberg's Emma", OLD_START, "b", OLD_END,
          *TWO], [ONE, TWO]),
        # Ends that a book quotes.
        ([START, *ONE[:50], QUOTED, "", *ONE[50:], "End of Project Gutenberg's Emma", "", END,
          "License", FULL_LICENSE, *TWO], [[*ONE[:50], QUOTED, *ONE[50:]]]),
        ([START, *ONE[:50], FIN, "", *ONE[50:], f"{FIN}, X"], [[*ONE[:50], FIN, *ONE[50:]]]),
        ([START, *ONE[:50], END, "", *ONE[50:], END, "License", START, *TWO, "", QUOTED, "", END],
          [[*ONE[:50], END, *ONE[50:]], TWO]),
        ([START, *ONE[:20], HEADER, "Title: Tom", "", START, *TWO, END], [ONE[:20], TWO]),
    ],
)  # fmt: skip
def test_the_frames_of_project_gutenberg_are_removed_and_counted(tmp_path, lines, expected):
    (tmp_path / "a.txt").write_text("\n".join(lines))
    found, counts = read("books", [str(tmp_path)])
    assert [document.paragraphs for document in found] == [list(filter(None, x)) for x in expected]
    assert [document.name for document in found] == ["a.txt", "a.txt:2"][: len(expected)]
    left_out = sum(map(bool, lines)) - sum(len(document.paragraphs) for document in found)
    assert sum(counts.left_out.values()) == left_out
