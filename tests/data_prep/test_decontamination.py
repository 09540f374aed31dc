"""Paragraphs with text of evaluation sets are left out, counted and listed."""

import dataclasses
import gzip
import json
import pathlib
from collections import Counter

import pyarrow
import pytest
from pyarrow import parquet

from albert_tf.errors import InputError
from data_prep import extraction, parallel
from data_prep.decontamination import read_evaluation_sets
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.word_sequences import find_words
from tests.support.texts import corpus_options, documents

WORDS = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]
SECRET = " ".join(WORDS[:13])
NEARLY = " ".join(WORDS[:12])
CHINESE = "我们在这条河边的几座古老城镇里生活了五百多年才看见海"  # 26 characters
THAI = "แม่น้ำสายนี้มีต้นกำเนิดในภูเขาและไหลผ่านเมืองเก่าหลาย"[:50]  # NFKC: 52
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": SECRET, "qas": [{"id": "1"}]}]}]}


def words_in(*paragraphs: str) -> list[str]:
    words = find_words(paragraphs)
    return [words.text[begin:end] for begin, end in words.spans]


def test_words():
    assert words_in("It's 3,5 Ｋｍ—naïve.", "E\u0301te\u0301") == (
        ["it", "s", "3", "5", "km", "naïve", "été"]
    )
    assert words_in("北京ab กา") == ["北", "京", "ab", "ก", "า"]
    words = find_words(["北京ab กา", "", "x"])
    assert words.parts.tolist() == [2, 2, 4, 1, 1, 4]
    assert words.paragraphs.tolist() == [0, 0, 0, 0, 0, 2]
    hashes, ends = words.sequences(2)
    assert ends.tolist() == [3, 5, 6]
    assert len(set(hashes.tolist())) == 3


def test_equal_sequences_have_equal_hashes_wherever_they_begin():
    many, _ = find_words([" ".join(WORDS * 50)]).sequences(13)
    assert [set(Counter(many[n::20].tolist()).values()) for n in range(9)] == [{50}] * 8 + [{49}]
    assert len(set(many.tolist())) == 20


WRITTEN = {
    "dev.tsv": f'id\tsentence\n1\t{SECRET}\n2\tone "quote\n'.encode(),
    "dev.csv": f'id,sentence\n1,"{SECRET}"\n'.encode(),
    "dev.json": json.dumps(SQUAD).encode(),
    "array.json": json.dumps([[SECRET], None, 1]).encode(),
    "dev.jsonl": f'{{"a": "x"}}\n\n{{"a": ["{SECRET}"]}}\n'.encode(),
    "race.txt": json.dumps({"article": SECRET, "options": [["a"]]}).encode(),
    "dev.txt": f"Other.\n\n{' '.join(WORDS[:6])}\n{' '.join(WORDS[6:13])}\n".encode(),
    "dev.txt.gz": gzip.compress(SECRET.encode()),
}


@pytest.fixture
def corpus(tmp_path) -> ExtractionOptions:
    """Two documents, in each of which a paragraph has 13 words of the evaluation set."""
    paragraphs = ["Before.", f"So, {SECRET.upper().replace(' ', ', ')}!", f"{NEARLY} after."]
    (tmp_path / "in-1.txt").write_text("\n\n".join(paragraphs) + "\n")
    (tmp_path / "in-2.txt").write_text("Alone.\n\n" + SECRET)
    (tmp_path / "eval").mkdir()
    return corpus_options(tmp_path, "books", "in-*.txt", decontaminate=(f"{tmp_path}/eval",))


def listed(options: ExtractionOptions) -> list[list[str]]:
    path = pathlib.Path(options.output_file[:-4] + ".decontaminated.tsv")
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", [*WRITTEN, "dev.parquet"])
def test_paragraphs_with_text_of_any_field_of_any_file_go(corpus, tmp_path, name):
    file = tmp_path / "eval" / name
    if name in WRITTEN:
        file.write_bytes(WRITTEN[name])
    else:
        parquet.write_table(pyarrow.table({"a": [{"text": [SECRET]}]}), file)
    options = dataclasses.replace(corpus, decontaminate=(str(file),))
    summary = extract(options)
    assert documents(options.output_file) == [f"Before.\n{NEARLY} after.", "Alone."]
    assert summary["left_out"] == {f"paragraphs with text of {file}": 2}
    found = summary["evaluation_sets"][str(file)]
    assert found["texts"] - found["too_short"] == found["sequences"] == 1
    shown = ", ".join(WORDS[:13])
    assert listed(options) == [
        [str(file), shown, "in-1.txt", "in-1.txt", f"So, {shown.upper()}!"],
        [str(file), SECRET, "in-2.txt", "in-2.txt", SECRET],
    ]


def test_texts_of_their_own_and_files_of_a_folder_are_not_joined(tmp_path):
    (tmp_path / "a.tsv").write_text(f"{NEARLY}\t{WORDS[12]}\n")
    (tmp_path / "b.tsv").write_text(f"{SECRET} x\ty\n")
    found = read_evaluation_sets([str(tmp_path)])
    assert found.names == (str(tmp_path),)
    assert found.statistics == {str(tmp_path): {"texts": 4, "too_short": 3, "sequences": 2}}


@pytest.mark.parametrize("secret", [SECRET, CHINESE, THAI], ids=["spaces", "zh", "th"])
def test_words_may_be_in_lines_that_follow_one_another(tmp_path, secret):
    half = 29 if secret is SECRET else 17
    (tmp_path / "eval.txt").write_text(secret, "utf-8")
    lines = ["First.", f"x {secret[:half]}", f"{secret[half:]} x".strip(), "Last.", secret[1:], "y"]
    (tmp_path / "in.txt").write_text("\n".join(lines), "utf-8")
    options = corpus_options(tmp_path, "text", decontaminate=(f"{tmp_path}/eval.txt",))
    extract(options)
    assert documents(options.output_file) == ["\n".join([lines[0], *lines[3:]])]
    assert [row[-1] for row in listed(options)] == lines[1:3]


@pytest.mark.integration
def test_processes_and_interruptions_change_nothing(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    (tmp_path / "eval" / "dev.tsv").write_bytes(WRITTEN["dev.tsv"])
    options = dataclasses.replace(corpus, near_duplicates=1, unique_paragraphs=True)
    extract(options)

    def written():
        return {p.name: p.read_bytes() for p in tmp_path.glob("out.*") if p.suffix != ".json"}

    expected = written()
    assert set(expected) == {"out.txt", "out.sources.tsv", "out.decontaminated.tsv"}
    assert len(listed(options)) == 2, "also if documents are looked at twice"
    extract(dataclasses.replace(options, num_processes=2))
    assert written() == expected
    extract(dataclasses.replace(options, decontaminate=()))
    assert set(written()) == {"out.txt", "out.sources.tsv"}
    for path in tmp_path.glob("out.*"):
        path.unlink()

    def interrupted():
        with monkeypatch.context() as patch:
            patch.setattr(extraction, "publish_files", lambda *arguments: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                extract(options)

    interrupted()
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "_extract_unit", None)  # all units are finished
        extract(options)
    assert written() == expected
    interrupted()
    (tmp_path / "eval" / "dev.tsv").write_text(f"{SECRET}\nmore\n")
    monkeypatch.setattr(extraction, "_extract_unit", None)
    with pytest.raises(TypeError):  # other evaluation sets: from scratch
        extract(options)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "`decontaminate`=.*/eval: the folder is empty"),
        ({"a.tsv": f"{NEARLY}\n"}, "=.*/eval: no text there has 13 words, by which it could be f"),
        ({"a.json": f'{{"a": "{SECRET}"'}, r"eval/a\.json: not JSON \("),
        ({"a.jsonl": '{"a": 1}\n{"a"\n'}, r"eval/a\.jsonl:2: not JSON \("),
        ({"a.txt": b"\xff"}, r"eval/a\.txt: line 1 is not UTF-8"),
    ],
)
def test_bad_evaluation_sets_are_one_line(corpus, tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / "eval" / name).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    with pytest.raises(InputError, match=message):
        extract(corpus)
    assert not list(tmp_path.glob("out*"))


def test_what_is_left_empty_or_missing_is_said(corpus, tmp_path):
    (tmp_path / "eval" / "a.txt").write_text(SECRET)
    only = dataclasses.replace(corpus, format="text", input_file=(f"{tmp_path}/eval/a.txt",))
    with pytest.raises(InputError, match=r"no text found in .*\(left out: 1 paragraphs with text"):
        extract(only)
    missing = dataclasses.replace(corpus, decontaminate=("none.tsv",))
    with pytest.raises(InputError, match=r"^`decontaminate`: no file matches 'none\.tsv'$"):
        extract(missing)
    own = dataclasses.replace(corpus, output_file=f"{tmp_path}/eval/a.txt")
    with pytest.raises(InputError, match="is also read, as `decontaminate`"):
        extract(own)
