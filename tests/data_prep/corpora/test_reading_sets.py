"""The passages of SQuAD and RACE, each once."""

import json

import pytest

from albert_tf.errors import InputError
from data_prep.corpora import reading_sets
from data_prep.corpora.base import Counts, Document, ReaderOptions

OPTIONS = ReaderOptions()


def read(*patterns, counts: Counts | None = None) -> list[Document]:
    (unit,) = reading_sets.units([str(pattern) for pattern in patterns], OPTIONS)
    return list(reading_sets.documents(unit, OPTIONS, counts or Counts()))


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
    counts = Counts()
    found = read(folder, counts=counts)
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
    assert [(d.name, d.key) for d in read(tmp_path)] == [
        ("squad:1", ""),
        ("squad:2", ""),
        ("squad:1", "squad:1#2"),
    ]


def test_files_and_globs_may_overlap(folder):
    everything = read(folder)
    assert read(folder / "squad.json", folder / "R*", folder) == everything
    assert read(folder / "RACE/dev/high/*.txt") == everything[:2]


def test_one_passage_per_line(tmp_path):
    path = tmp_path / "race.json"
    path.write_text(race("One.", id="a") + "\n" + race("Two.", id="b") + "\n")
    assert [document.name for document in read(path)] == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    ["no JSON", "", "[]", "5", '{"a": 1}', '{"data": [{"paragraphs": [{}]}]}', '{"article": 5}',
     race("cut off")[:-3], '{"data": 5}', '{"article": "a"}\n{"art'],
)  # fmt: skip
def test_other_files_are_reported(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json: neither SQuAD .* nor RACE"):
        read(tmp_path / "x.json")


def test_missing_files_are_reported(tmp_path):
    with pytest.raises(InputError, match="`input_file`: no file matches"):
        read(tmp_path / "none*")
    with pytest.raises(
        InputError, match=r"`input_file`=.*: the folder contains no \.txt or \.json"
    ):
        read(tmp_path)
