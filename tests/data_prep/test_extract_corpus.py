"""Corpora: held-out documents, splits, samples, and no partial output."""

import dataclasses
import itertools
import json
import os
import pathlib
import random
import re

import numpy as np
import pytest

from albert_tf.errors import InputError
from data_prep import extract_corpus
from data_prep.corpora.base import Counts, Document
from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import (
    OutputDocument,
    document_hash,
    select,
    split_paragraphs,
)
from tests.support.texts import corpus_options, documents, sources


@pytest.fixture
def options(tmp_path) -> ExtractionOptions:
    """Return three hundred documents of three sentences, in ten files."""
    for file in range(10):
        documents = [
            "\n".join(f"Sentence {s} of document {d} in file {file}." for s in range(3))
            for d in range(30)
        ]
        (tmp_path / f"in-{file}.txt").write_text("\n\n".join(documents))
    return corpus_options(tmp_path, "text", "in-*.txt", output_file=f"{tmp_path}/out/train.txt")


def read(path: str) -> list[list[str]]:
    found = [document.split("\n") for document in documents(path)]
    for (source, name), document in zip(sources(path), found, strict=True):
        text = (pathlib.Path(path).parent.parent / source).read_text("utf-8")
        assert text[int(name.split(":")[-1]) :].startswith(document[0])
    return found


def test_documents_are_held_out_by_name(options, tmp_path):
    held_out = dataclasses.replace(
        options, eval_output_file=str(tmp_path / "out" / "eval.txt"), eval_fraction=0.2
    )
    extract_corpus.run(options)
    whole = read(options.output_file)
    extract_corpus.run(held_out)
    train, evaluation = read(held_out.output_file), read(held_out.eval_output_file)
    assert len(whole) == 300
    assert 35 < len(evaluation) < 90
    assert sorted(train + evaluation) == sorted(whole)
    # Other files around it do not move a document from one side to the other.
    os.remove(tmp_path / "in-0.txt")
    extract_corpus.run(held_out)
    assert read(held_out.eval_output_file) == [d for d in evaluation if "file 0" not in d[0]]


def test_the_sample_is_uniform(options):
    extract_corpus.run(options)
    whole = read(options.output_file)
    size = os.path.getsize(options.output_file)
    extract_corpus.run(dataclasses.replace(options, max_megabytes=size / 2e6))
    part = read(options.output_file)
    assert 0.4 * size < os.path.getsize(options.output_file) <= size / 2
    assert [document for document in whole if document in part] == part
    places = np.array([whole.index(document) for document in part])
    assert 120 < places.mean() < 180
    # A smaller part is a part of the larger one.
    extract_corpus.run(dataclasses.replace(options, max_megabytes=size / 8e6))
    assert all(document in part for document in read(options.output_file))


def test_a_large_document_is_left_out_alone(tmp_path):
    """As if all were sorted by their hashes, in whatever order they arrive."""
    draw = random.Random(1)
    options = ExtractionOptions(output_file="o.txt", max_megabytes=0.001, random_seed=0)
    for _ in range(200):
        sizes = [draw.choice([1, 1, 5, 19, 40, 300, 600, 900, 2000]) for _ in range(60)]
        hashes = {str(n): document_hash(str(n), "kept", 0) for n in range(len(sizes))}
        expected, free = set(), 1000
        for key in sorted(hashes, key=hashes.get):
            size = sizes[int(key)]
            if size <= free:
                expected.add(key)
                free -= size
            elif size <= 20:
                break
        documents = [
            OutputDocument(b"x" * (sizes[number] - 1), "same", str(number), "s", 1, 1, False, 1)
            for number in draw.sample(range(len(sizes)), len(sizes))
        ]
        kept, _, left_out_bytes = select(documents, options, str(tmp_path))
        assert {d.key for d in itertools.compress(documents, kept)} == expected
        assert left_out_bytes == sum(sizes) - (1000 - free)


SAME_NAMES = {
    "books": ("books", "{n:02}/text.txt", "Book {n} has a sentence."),
    "two folders of one name": ("text", "{n}/a/train.txt", "Text {n}."),
    "titles": ("table", "{n}/rows.jsonl", '{{"title": "Untitled", "text": "Row {n}."}}\n'),
    "articles": ("wikitext", "wiki.{m}", " = Untitled = \n\n Article {n} . \n\n"),
}


@pytest.mark.parametrize(("format", "path", "text"), SAME_NAMES.values(), ids=SAME_NAMES)
def test_documents_of_the_same_name_are_drawn_each_for_itself(tmp_path, format, path, text):
    for number in range(60):
        file = tmp_path / "in" / path.format(n=number, m=number % 2)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(text.format(n=number))
    inputs = re.sub(r"\{.*?\}", "*", f"{tmp_path}/in/{path}")
    draws = []
    held_out: dict = {"eval_output_file": str(tmp_path / "eval.txt"), "eval_fraction": 0.5}
    for weight, seed in ((1, 1), (0.5, 1), (0.5, 2)):
        options = ExtractionOptions(
            source=(f"{format}:{inputs}@{weight}",),
            title_column="title" if format == "table" else None,
            output_file=str(tmp_path / "train.txt"),
            **(held_out if weight == 1 else {}),
            random_seed=seed,
        )
        extract_corpus.run(options)
        draws.append(set((tmp_path / "train.txt").read_text().split("\n\n")))
    assert all(15 < len(draw) < 45 for draw in draws)
    assert len({frozenset(draw) for draw in draws}) == 3


@pytest.mark.parametrize("format", ["text", "books", "table", "reading_sets"])
@pytest.mark.parametrize("blank", ["\u200b", " \ufeff ", "\u00ad\u2060", "\u200f\u3000"])
def test_lines_that_cannot_be_seen_separate_documents_only(tmp_path, format, blank):
    text = f"One is here.\n{blank}\n{blank}\nTwo is there."
    wrapped = {"table": {"text": text}, "reading_sets": {"article": text}}.get(format)
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(wrapped) if wrapped else text, "utf-8")
    options = corpus_options(tmp_path, format, "in.jsonl")
    extract_corpus.run(options)
    between = "\n\n" if format == "text" else "\n"
    assert (tmp_path / "out.txt").read_text("utf-8") == f"One is here.{between}Two is there.\n"
    found = split_paragraphs(
        Document("n", "s", [blank, "One."]), options, format == "text", Counts()
    )
    assert [paragraph.sentences for paragraph in found] == [[], ["One."]]


def test_long_documents_are_split_between_paragraphs(tmp_path):
    paragraphs = [f"This is paragraph {n}. It has a second sentence." for n in range(10)]
    (tmp_path / "book.txt").write_text("\n\n".join(paragraphs) + "\n\nOne. Two. Three. Four. Five.")
    extract_corpus.run(corpus_options(tmp_path, "books", "book.txt", max_document_sentences=5))
    blocks = documents(f"{tmp_path}/out.txt")
    assert [block.count("\n") + 1 for block in blocks] == [4] * 5 + [5]
    assert all(block.startswith(("This is", "One.")) for block in blocks)
    found = sources(f"{tmp_path}/out.txt")
    assert len(set(found)) == 6
    assert {source for source, _ in found} == {"book.txt"}


@pytest.mark.parametrize("parts", [False, True])
def test_parts_of_a_document_are_held_out_together_or_one_by_one(parts, tmp_path):
    paragraphs = "\n\n".join(f"This is paragraph {n}. It has two sentences." for n in range(60))
    for number in range(12):
        (tmp_path / f"book{number}.txt").write_text(f"Book {number}.\n\n{paragraphs}")
    extract_corpus.run(
        corpus_options(
            tmp_path,
            "books",
            "book*.txt",
            eval_output_file=str(tmp_path / "eval.txt"),
            eval_fraction=0.3,
            max_document_sentences=6,
            hold_out_parts=parts,
        )
    )
    train, held_out = (
        {source for source, _ in sources(f"{tmp_path}/{name}.txt")} for name in ("out", "eval")
    )
    assert train | held_out == {f"book{number}.txt" for number in range(12)}
    assert len(train & held_out) == (12 if parts else 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": ()}, "`input_file`: text needs files"),
        ({"input_file": ("none-*.txt",)}, "`input_file`: no file matches 'none-"),
        ({"output_file": "c.txt.gz"}, "`output_file`=c.txt.gz: would not be compressed"),
        ({"eval_output_file": "e.txt", "eval_fraction": 1e-9}, "`eval_fraction`=1e-09: no docu"),
        ({"max_megabytes": 1e-6}, "`max_megabytes`=1e-06: no document fits"),
        ({"language": "English!"}, "`language`=English!"),
    ],
)
def test_invalid_options_are_reported_and_leave_nothing(
    options, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        extract_corpus.run(dataclasses.replace(options, **changes))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "in-" not in path.name]


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"one\n\xff\n"])
def test_an_input_without_text_leaves_nothing(tmp_path, content):
    (tmp_path / "in.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"in\.txt"):
        extract_corpus.run(corpus_options(tmp_path, "text"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
