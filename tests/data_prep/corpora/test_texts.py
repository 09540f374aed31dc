"""Books, lines of sentences, WikiText, and the passages of reading sets."""

import functools
import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep.corpora import books, text
from data_prep.corpora.wikitext_sets import detokenized
from data_prep.extraction_options import ExtractionOptions
from tests.conftest import random_inputs
from tests.support.texts import read_corpus

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
    (document,), counts = read_corpus("books", tmp_path)
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
        ([*ONE, "End of Project Gutenberg's Emma, by X", "", END, "License"], [ONE]),
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
    found, counts = read_corpus("books", tmp_path)
    assert [document.paragraphs for document in found] == [list(filter(None, x)) for x in expected]
    assert [document.name for document in found] == ["a.txt", "a.txt:2"][: len(expected)]
    left_out = sum(map(bool, lines)) - sum(len(document.paragraphs) for document in found)
    assert sum(counts.left_out.values()) == left_out


def test_blank_lines_separate_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf\n\none \r\ntwo\r\n\r\n \n\nthree")
    (tmp_path / "b.txt").write_text("four\n")
    found, counts = read_corpus("text", tmp_path / "*.txt")
    assert [document.paragraphs for document in found] == [["one", "two"], ["three"], ["four"]]
    assert [document.source for document in found] == ["a.txt", "a.txt", "b.txt"]
    assert [document.name for document in found] == ["a.txt:5", "a.txt:21", "b.txt:0"]
    assert counts.characters == len("onetwothreefour")


def test_a_document_can_be_a_number_of_lines(tmp_path):
    (tmp_path / "books_large_p1.txt").write_text("".join(f"line {n} .\n" for n in range(7)))
    found, counts = read_corpus("text", tmp_path / "*", document_sentences=3)
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
    _, counts = read_corpus("text", tmp_path / "*")
    assert len(counts.warnings) == (warning is not None)
    assert warning is None or f"{tmp_path}/a.txt: {warning}" in counts.warnings[0]


ARTICLES = """ 
 = The <i> Flying </i> Castle = 
 
 It is a castle . It has 1 @,@ 500 rooms . 
 Its roof @-@ top is gone . 
 
 = = History = = 
 
 
 = = = Before 1900 = = = 
 
 It was built in 1880 . 
 
 = Empty = 
 
 = = References = = 
 
 = 2 + 2 = 4 = 
 
 A sum . 
"""  # noqa: W291, W293


def test_a_title_begins_a_document(tmp_path):
    (tmp_path / "wiki.train.raw").write_text(ARTICLES)
    found, counts = read_corpus("wikitext", tmp_path / "*")
    assert [(document.name, document.paragraphs) for document in found] == [
        (
            "The <i> Flying </i> Castle",
            [
                "It is a castle. It has 1,500 rooms.",
                "Its roof-top is gone.",
                "It was built in 1880.",
            ],
        ),
        ("2 + 2 = 4", ["A sum."]),
    ]
    assert counts.left_out == {"articles without text": 1}
    assert not counts.warnings
    ExtractionOptions("out.txt", "wikitext", ("wiki.raw",), keep_headings=True).check()
    found, _ = read_corpus("wikitext", tmp_path / "*", keep_headings=True)
    assert found[0].paragraphs[2:4] == ["History", "Before 1900"]
    assert found[1].paragraphs == ["References"]


def test_a_long_line_is_left_out_wherever_it_is_cut(tmp_path):
    (tmp_path / "wiki.raw").write_text(f" = T = \n\n a{'€' * 400_000}\n One .\n", "utf-8")
    (document,), counts = read_corpus("wikitext", tmp_path / "*")
    assert document.paragraphs == ["One."]
    assert counts.left_out == {"lines longer than a megabyte": 1}


@random_inputs(30)
@given(length=st.integers(1, 300))
def test_units_of_any_length_give_the_same_documents(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("wikitext") / "wiki.train.raw"
    path.write_text(ARTICLES * 2)
    whole, _ = read_corpus("wikitext", path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_UNIT_BYTES", length)
        assert read_corpus("wikitext", path)[0] == whole
    assert len(whole) == 4


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("a guest @-@ starring role ( 2 @.@ 5 % ) :", "a guest-starring role (2.5%):"),
        ('the play " Herons " , " Daylight " ;', 'the play "Herons", "Daylight";'),
        ("Boulter 's , they 're , did n't , I 'll", "Boulter's, they're, didn't, I'll"),
        ("$ 5 @,@ 000 @,@ 000 [ sic ] – 3 − 1", "$5,000,000 [sic] – 3 − 1"),
        ("Q : what ? A : “ this ” !", "Q: what? A: “this”!"),
    ],
)
def test_spaces_of_the_tokenizer_are_removed(tokens, expected):
    assert detokenized(tokens) == expected


def test_other_files_are_reported(tmp_path):
    (tmp_path / "a.txt").write_text("Just text .\n")
    with pytest.raises(InputError, match=r"a\.txt: not WikiText, which begins with a title"):
        read_corpus("wikitext", tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text(" = A = \n\n The <unk> is here .\n")
    assert read_corpus("wikitext", tmp_path / "b.txt")[1].warnings == [
        f"{tmp_path}/b.txt: has <unk> for rare words; use the raw files"
    ]


read_sets = functools.partial(read_corpus, "reading_sets")


def squad(*contexts: str, title: str = "Emma") -> str:
    paragraphs = [{"context": context, "qas": [{"question": "Who?"}]} for context in contexts]
    return json.dumps({"version": "2.0", "data": [{"title": title, "paragraphs": paragraphs}]})


def race(article: str, **more: str) -> str:
    return json.dumps({"answers": ["A"], "questions": ["Why?"], "article": article} | more)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "RACE" / "dev" / "high").mkdir(parents=True)
    high = tmp_path / "RACE" / "dev" / "high"
    (high / "1.txt").write_text(race("First line.\nSecond line.", id="high1.txt"))
    (high / "2.txt").write_text(race("Another."))
    (high / "3.txt").write_text(race("First line.\n\nSecond line. ", id="high3.txt"))
    (high / "._1.txt").write_bytes(b"\x00\x05\x16\x07")
    (high.parent.parent / "README").write_text("RACE")
    (tmp_path / "squad.json").write_text("\ufeff" + squad("A context.", "Another.", "B.", "B."))
    return tmp_path


def test_each_distinct_passage_is_a_document(folder):
    found, counts = read_sets(folder)
    assert [document[:3] for document in found] == [
        ("high1.txt", "high", ["First line.", "Second line."]),
        ("high:2.txt", "high", ["Another."]),
        ("Emma:1", "Emma", ["A context."]),
        ("Emma:3", "Emma", ["B."]),
    ]
    assert counts.characters == sum(len("".join(d.paragraphs)) for d in found) + (
        counts.repeated_characters
    )
    assert counts.repeated_characters == len("First line.Second line.Another.B.")


def test_passages_of_untitled_articles_have_keys_of_their_own(tmp_path):
    (tmp_path / "a.json").write_text(squad("A.", "B.", title=""))
    (tmp_path / "b.json").write_text(squad("C.", title=""))
    assert [(d.name, d.key) for d in read_sets(tmp_path)[0]] == [
        ("squad:1", ""),
        ("squad:2", ""),
        ("squad:1", "squad:1#2"),
    ]


def test_files_and_globs_may_overlap(folder):
    everything, _ = read_sets(folder)
    assert read_sets(folder / "squad.json", folder / "R*", folder)[0] == everything
    assert read_sets(folder / "RACE/dev/high/*.txt")[0] == everything[:2]


def test_one_passage_per_line(tmp_path):
    path = tmp_path / "race.json"
    path.write_text(race("One.", id="a") + "\n" + race("Two.", id="b") + "\n")
    assert [document.name for document in read_sets(path)[0]] == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    ["no JSON", "", "[]", "5", '{"a": 1}', '{"data": [{"paragraphs": [{}]}]}', '{"article": 5}',
     race("cut off")[:-3], '{"data": 5}', '{"article": "a"}\n{"art'],
)  # fmt: skip
def test_files_that_are_no_reading_sets_are_reported(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json: neither SQuAD .* nor RACE"):
        read_sets(tmp_path / "x.json")


def test_folders_without_files_of_a_format_are_reported(tmp_path):
    with pytest.raises(InputError, match="^`input_file`=.*: is a folder"):
        read_corpus("text", tmp_path)
    with pytest.raises(InputError, match=r"^`input_file`=.*: the folder contains no \.txt or \.js"):
        read_sets(tmp_path)
