"""Tables of every type give the same documents, part by part, or a clear error."""

import csv
import functools
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tracemalloc

import pyarrow
import pytest
from pyarrow import parquet

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import table
from data_prep.corpora.base import Counts, ReaderOptions
from tests.conftest import ROOT, run_commands, run_python
from tests.files.test_tables import write as write_table
from tests.support.hub import serving
from tests.support.texts import COMPRESS, read_corpus

ROWS = [
    {"id": 1, "text": "One line.", "name": "first"},
    {"id": 2, "text": 'Two, "quoted" \n\n \n lines.\r\n', "name": "a\tname  of\nlines"},
    {"id": 3, "text": None, "name": "nothing"},
    {"id": 4, "text": " \n", "name": "blank"},
    {"id": 5, "text": "Grüße, 世界 NA", "name": None},
]
PARAGRAPHS = [["One line."], ['Two, "quoted"', "lines."], ["Grüße, 世界 NA"]]


def write_parquet(path: pathlib.Path, rows: list[dict], row_group_size: int = 2) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=row_group_size)


def write(path: pathlib.Path, rows: list[dict]) -> None:
    """Write rows as what the endings say; Parquet in several row groups."""
    if path.suffix == ".parquet":
        write_parquet(path, rows)
    elif path.suffix in COMPRESS:
        plain = path.with_suffix("")
        write_table(plain, rows)
        path.write_bytes(COMPRESS[path.suffix](plain.read_bytes()))
        plain.unlink()
    else:
        write_table(path, rows)


NAMES = ["t.parquet", "t.jsonl", "t.json.gz", "t.jsonl.zst", "t.csv", "t.csv.bz2", "t.csv.zst"]


read = functools.partial(read_corpus, "table")


@pytest.mark.parametrize("name", NAMES)
def test_all_types_give_the_same_documents(tmp_path, name):
    path = tmp_path / name
    write(path, ROWS)
    found, counts = read(tmp_path, title_column="name")
    assert [document.paragraphs for document in found] == PARAGRAPHS
    assert [document.name for document in found] == ["first", "a name of lines", f"{name}:5"]
    assert {document.source for document in found} == {name}
    assert (counts.skipped, counts.left_out) == (0, {"rows without text": 2})
    assert 0 < counts.input_bytes <= path.stat().st_size
    assert counts.characters == sum(len(p) for paragraphs in PARAGRAPHS for p in paragraphs)
    # Without a column of names, the numbers of the rows.
    assert [d.name for d in read(path)[0]] == [f"{name}:1", f"{name}:2", f"{name}:5"]


def test_tsv_has_no_quotes(tmp_path):
    (tmp_path / "t.tsv").write_text('id\ttext\n1\t"The\n2\tcat" sat\n3\ta\tb\n')
    found, counts = read(tmp_path / "t.tsv")
    assert [d.paragraphs for d in found] == [['"The'], ['cat" sat']]
    assert counts.skipped == 1  # a row with a cell too many


def test_row_groups_are_units(tmp_path):
    rows = [{"text": f"Row {number}."} for number in range(25)]
    write_parquet(tmp_path / "b.parquet", rows, 10)
    write(tmp_path / "a.jsonl", rows[:2])
    options = ReaderOptions()
    units = list(table.units([str(tmp_path / "*")], options))
    assert [unit.first_row for unit in units] == [0, 0, 10, 20]
    last = list(table.documents(units[-1], options, Counts()))
    assert [d.name for d in last] == [f"b.parquet:{number}" for number in range(21, 26)]
    assert [d.paragraphs for d in last] == [[f"Row {number}."] for number in range(20, 25)]


def test_rows_can_be_grouped(tmp_path):
    rows = [{"text": f"sentence {number} ." if number != 4 else ""} for number in range(25)]
    write_parquet(tmp_path / "b.parquet", rows, 10)
    found, counts = read(tmp_path / "b.parquet", document_sentences=4)
    assert [(document.name, len(document.paragraphs)) for document in found] == [
        ("b.parquet:1", 4), ("b.parquet:6", 4), ("b.parquet:10", 1),
        ("b.parquet:11", 4), ("b.parquet:15", 4), ("b.parquet:19", 2),
        ("b.parquet:21", 4), ("b.parquet:25", 1),
    ]  # fmt: skip
    assert counts.left_out == {"rows without text": 1}


def test_text_types_of_parquet(tmp_path):
    texts = ["one", None, "two"]
    for number, column in enumerate(
        [
            pyarrow.array(texts, pyarrow.large_string()),
            pyarrow.array(texts).dictionary_encode(),
            pyarrow.array(texts, pyarrow.string_view()),
        ]
    ):
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(pyarrow.table({"text": column}), path)
        assert [d.paragraphs for d in read(path)[0]] == [["one"], ["two"]]
    # A shard without a text may have a column without a type.
    parquet.write_table(pyarrow.table({"text": pyarrow.nulls(3)}), tmp_path / "null.parquet")
    found, counts = read(tmp_path / "null.parquet")
    assert not found
    assert counts.left_out == {"rows without text": 3}


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.csv", "t.parquet"])
def test_a_large_table_is_several_units(tmp_path, monkeypatch, name):
    rows = [{"text": f"Row {number}, of many."} for number in range(100)]
    path = tmp_path / name
    write(path, rows)
    whole, _ = read(path)
    monkeypatch.setattr(table, "_UNIT_CHARACTERS", 300)
    units = list(table.units([str(path)], ReaderOptions()))
    assert len(units) > 5
    assert sum(unit.bytes for unit in units) == path.stat().st_size
    assert read(path)[0] == whole
    assert [document.name for document in whole] == [f"{name}:{n}" for n in range(1, 101)]


def test_a_bad_json_line_is_skipped_and_counted(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"text": "one"}\n{"text": "cut of\n\n[1]\n"text"\n{"text": 5}\n'
        b'{"text": ["a"]}\n{"other": 1}\n{"text": "\xff"}\n'
        b'{"text": "half \\ud83d, whole \\ud83d\\ude00"}'
    )
    found, counts = read(path)
    assert [d.paragraphs for d in found] == [["one"], ["half \ufffd, whole 😀"]]
    assert (counts.skipped, counts.left_out) == (6, {"rows without text": 1})


def test_a_missing_column_is_detected_early(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    rows = [{"body": os.urandom(200).hex()} for _ in range(3000)]
    write(path, rows)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(InputError, match="`text_column`=text: no such column .*; it has body"):
        read(path)


def test_memory_does_not_grow_with_the_table(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        for _ in range(1200):
            file.write(json.dumps({"text": "word " * 4000}) + "\n")  # 24 MB
    options = ReaderOptions()
    units = table.units([str(path)], options)
    tracemalloc.start()
    try:
        found = (d for unit in units for d in table.documents(unit, options, Counts()))
        assert sum(1 for _ in found) == 1200
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.csv", "t.csv.gz"])
@pytest.mark.parametrize("column", ["text_column", "title_column"])
def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path, name, column):
    path = tmp_path / name
    write(path, ROWS)
    with pytest.raises(InputError, match=f"`{column}`=body: no such column in .*{name}; it has id"):
        read(path, **{column: "body"})
    many = [{"content": "x"}] * 2000
    write(path, many)
    with pytest.raises(InputError, match="no such column .*; it has content"):
        read(path)


def damaged(path: pathlib.Path) -> None:
    write(path, [{"text": f"some text {n * 7919}"} for n in range(3000)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("", lambda folder: None, "`input_file`=.*: the folder contains no table"),
        ("t.txt", lambda path: path.write_text("a"), r"the ending must be one of \.parquet"),
        ("t.parquet.gz", lambda path: path.write_text("a"), "the ending must be one of"),
        ("t.parquet", damaged, r"t.parquet: not a Parquet file, or damaged \("),
        ("t.parquet", lambda path: path.write_bytes(b""), "t.parquet: not a Parquet file"),
        ("t.jsonl.gz", damaged, "t.jsonl.gz: damaged"),
        ("t.csv.zst", damaged, "t.csv.zst: damaged"),
        ("t.csv.gz", lambda path: path.write_text("text\na\n"), "t.csv.gz: not a .gz file"),
        ("t.csv", lambda path: path.write_text(""), "no such column in .*; it has none"),
        ("t.json", lambda path: path.write_text('[\n{"text": "a"}\n]'), "one object per line"),
        ("t.json", lambda path: path.write_text('[{"text": "a"}]'), "one object per line"),
        ("t.json", lambda path: path.write_text('{\n "text": "a"\n}'), "one object per line"),
    ],
)
def test_unreadable_files_are_reported(tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_what_an_unclosed_quotation_mark_opens_may_be_too_long(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('text\n"' + "the cat sat\n" * 500)
    before = csv.field_size_limit(1000)
    try:
        with pytest.raises(InputError, match=r"t\.csv:2: a field is longer than 1,000 characters"):
            read(path)
    finally:
        csv.field_size_limit(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Return two Parquet files of eight row groups in all."""
    folder = tmp_path_factory.mktemp("hub") / "de"
    folder.mkdir()
    draw = random.Random(1)
    for number in range(2):
        rows = [
            {"text": "\n".join(f"Sentence {draw.getrandbits(200)} of {row}." for _ in range(20))}
            for row in range(800)
        ]
        write_parquet(folder / f"train-{number}.parquet", rows, 200)
    return folder


def words_of(pattern: str, output: pathlib.Path) -> list[str]:
    words = ["-m", "data_prep.extract_corpus", "--format=table", "--num_processes=1"]
    return [*words, f"--input_file={pattern}", f"--output_file={output}"]


@pytest.mark.integration
def test_a_data_set_of_the_hub_gives_the_corpus_of_its_files(folder, tmp_path):
    expected, output = tmp_path / "local" / "corpus.txt", tmp_path / "hub" / "corpus.txt"
    name = "hf://datasets/org/name/de/*.parquet"
    with serving(folder.parent) as hub:
        assert run_python(*words_of(f"{folder}/*.parquet", expected)).returncode == 0
        # Killed on the way, then resumed.
        command = [sys.executable, *words_of(name, output)]
        first = subprocess.Popen(command, env=os.environ | {"HF_ENDPOINT": hub.endpoint}, cwd=ROOT)
        hub.on_request = lambda number: first.kill() if number == 8 else None
        assert first.wait() != 0
        assert not output.exists()
        hub.on_request = lambda number: None
        done = run_python(*words_of(name, output), HF_ENDPOINT=hub.endpoint)
    assert "resuming the unfinished run" in done.stdout
    assert output.read_bytes() == expected.read_bytes()
    summary = json.loads((output.parent / "corpus.corpus.json").read_text())
    assert summary["input_checksums"] == {
        f"hf://datasets/org/name/de/{path.name}": f"sha256:{files.sha256_of(str(path))}"
        for path in sorted(folder.iterdir())
    }
    assert sum(summary["inputs"].values()) == sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.integration
def test_what_the_hub_does_not_have_is_one_line(folder, tmp_path):
    cases = {
        "hf://datasets/org/name/fr/*.parquet": "404 Not Found",
        "hf://datasets/org/other/*.parquet": "repository not found",
        "hf://datasets/org/name/de/none.parquet": "no file matches",
        "nonsense://a/b.parquet": "Protocol not known",
    }
    output = tmp_path / "corpus.txt"
    commands = [["data_prep/extract_corpus.py", *words_of(name, output)[2:]] for name in cases]
    with serving(folder.parent) as hub:
        done = run_commands(commands, tmp_path, HF_ENDPOINT=hub.endpoint)
    assert done.stdout.split() == ["1"] * len(cases), done.stderr
    for number, (name, message) in enumerate(cases.items()):
        (line,) = (tmp_path / f"{number}.err").read_text().splitlines()
        assert name in line
        assert message in line
