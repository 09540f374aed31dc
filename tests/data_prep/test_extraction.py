"""Extraction: the same bytes for any number of processes and any interruption."""

import bz2
import dataclasses
import json
import os
import pathlib
from collections import Counter

import pytest

from albert_tf.errors import InputError
from data_prep import extract_corpus, extraction, output_documents, parallel
from data_prep.corpora import CORPUS_FORMATS, text
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from tests.data_prep.corpora.test_wikipedia import dump, page
from tests.support.texts import corpus_options, documents, sources


@pytest.fixture
def inputs(tmp_path) -> pathlib.Path:
    """Return books, lines and a dump."""
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(6):
        paragraphs = [
            f"This is paragraph {p} of book {n}. It has more to say, Mr. Smith." for p in range(40)
        ]
        (folder / f"book-{n}.txt").write_text("\n\n".join(paragraphs))
    lines = [f"Line one of text {n}.\nLine two of it." for n in range(200)]
    (folder / "lines.txt").write_text("\n\n".join(lines))
    pages = [
        page(f"Page {n}", f"This is '''page {n}''' {{{{odd {n % 7}}}}}. It is short." * 3)
        for n in range(120)
    ]
    (folder / "dump.xml.bz2").write_bytes(bz2.compress(dump(pages)))
    return folder


@pytest.fixture
def options(inputs, tmp_path, monkeypatch) -> ExtractionOptions:
    monkeypatch.setattr(text, "_UNIT_BYTES", 1000)
    return ExtractionOptions(
        source=(
            f"wikipedia:{inputs}/*.bz2",
            f"books:{inputs}/book-*.txt@2",
            f"text:{inputs}/lines.txt@0.5",
        ),
        output_file=str(tmp_path / "out" / "train.txt"),
        eval_output_file=str(tmp_path / "out" / "eval.txt"),
        eval_fraction=0.2,
        max_document_sentences=20,
        num_processes=1,
    )


def contents(options: ExtractionOptions) -> dict[str, bytes]:
    """Return the files of a run; the summary without its duration."""
    folder = pathlib.Path(options.output_file).parent
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    summary = json.loads(found.pop("train.corpus.json"))
    for name in ("seconds", "settings"):
        summary.pop(name)
    return found | {"summary": json.dumps(summary).encode()}


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes", [{"unique_paragraphs": True, "near_duplicates": 0.5}, {"sample_documents": 130}]
)
def test_the_number_of_processes_changes_nothing(options, monkeypatch, changes):
    options = dataclasses.replace(options, **changes)
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    # Large enough for units that other processes cut in the same way.
    monkeypatch.setattr(text, "_UNIT_BYTES", 4_000_000)
    extract_corpus.run(options)
    expected = contents(options)
    extract_corpus.run(dataclasses.replace(options, num_processes=2))
    assert contents(options) == expected
    assert set(expected) == {
        "train.txt", "train.sources.tsv", "eval.txt", "eval.sources.tsv", "summary",
    }  # fmt: skip


def test_weights_of_sources(options):
    extract_corpus.run(options)
    train, held_out = sources(options.output_file), sources(options.eval_output_file)
    assert len(documents(options.output_file)) == len(train)
    by_name = Counter(train)
    for (source, name), count in by_name.items():
        assert count == (2 if source.startswith("book-") else 1), name
    assert max(Counter(held_out).values()) == 1, "held-out documents are not repeated"
    assert not set(train) & set(held_out)
    kept = [name for source, name in {*train, *held_out} if source == "lines.txt"]
    assert 60 < sum(source == "lines.txt" for source, _ in train) < 100
    # Which ones is decided by their names, not by the company they are in.
    alone = dataclasses.replace(options, source=options.source[2:])
    extract_corpus.run(alone)
    train, held_out = sources(options.output_file), sources(options.eval_output_file)
    assert sorted(name for _, name in train + held_out) == sorted(kept)
    for parts in (False, True):
        drawn = set()
        for weight in (0.1, 0.5, 1, 2.5):
            changes = {"source": (alone.source[0].replace("@0.5", f"@{weight}"),)}
            changes |= {"max_document_sentences": 2, "hold_out_parts": parts, "eval_fraction": 0.3}
            extract_corpus.run(dataclasses.replace(alone, **changes))
            drawn.add(tuple(sources(options.eval_output_file)))
        assert len(drawn) == 1, "the weight changes nothing of what is held out"
    counts = Counter(Counter(sources(options.output_file)).values())
    assert set(counts) == {2, 3}, "2.5"
    assert 0.35 < counts[3] / counts.total() < 0.65


@pytest.mark.parametrize(
    "format", ["text", "books", "wikitext", "table", "wikipedia", "reading_sets"]
)
def test_of_equal_paragraphs_the_first_is_written(tmp_path, monkeypatch, format):
    monkeypatch.setattr(text, "_UNIT_BYTES", 1)  # units of a document
    gap = "\n" if format in ("text", "table") else "\n\n"
    texts = {
        "a": ["One.", "Two. A b."],
        "b": ["One.", "Three."],
        "c": ["Two.", "Two. A b.", "One."],
    }
    for name, paragraphs in texts.items():
        content = gap.join(paragraphs)
        if format == "table":
            content = json.dumps({"text": content})
        elif format == "reading_sets":
            content = json.dumps({"article": "\n".join(paragraphs), "id": name})
        elif format == "wikitext":
            content = f" = {name} = \n{content}"
        elif format == "wikipedia":
            content = dump([page(name, content)]).decode()
        (tmp_path / f"{name}.{'jsonl' if format == 'table' else 'txt'}").write_text(content)
    options = corpus_options(tmp_path, format, "[abc].*", unique_paragraphs=True)
    summary = extract(options)
    second = "Two. A b." if format == "text" else "Two.\nA b."  # a line is a sentence there
    assert documents(options.output_file) == [f"One.\n{second}", "Three.", "Two."]
    assert summary["repeated_characters"] == len("One.Two. A b.One.")
    # What is in no document that is written is not repeated.
    (weighted,) = extract(
        dataclasses.replace(
            options,
            format=None,
            input_file=(),
            source=tuple(f"{format}:{tmp_path}/{n}.*@{w}" for n, w in (("a", 0.001), ("c", 2))),
        )
    )["outputs"].values()
    assert weighted["documents"] == 2
    assert documents(options.output_file) == [f"Two.\n{second}\nOne."] * 2


@pytest.mark.parametrize("changes", [{}, {"unique_paragraphs": True}, {"near_duplicates": 0.9}])
@pytest.mark.parametrize("format", ["text", "books", "table"])
def test_a_sample_ends_after_its_documents(tmp_path, monkeypatch, format, changes):
    monkeypatch.setattr(text, "_UNIT_BYTES", 100)
    ending = "jsonl" if format == "table" else "txt"
    for number in range(9):
        texts = [f"File {number} begins with {word}. It is short." for word in ("one", "two")]
        rows = [json.dumps({"text": each}) for each in texts]
        content = "\n".join(rows) if format == "table" else "\n\n".join(texts)
        (tmp_path / f"in-{number}.{ending}").write_text(content)
    options = corpus_options(tmp_path, format, "in-*", **changes)
    whole = extract(options)
    expected = documents(options.output_file)
    (tmp_path / f"in-7.{ending}").write_bytes(b"\xff")
    count = 3 if format == "books" else 5
    sampled = dataclasses.replace(options, sample_documents=count)
    summary = extract(sampled)
    assert documents(options.output_file) == expected[:count]
    assert summary["input_bytes"] < whole["input_bytes"] / 2
    with monkeypatch.context() as patch:  # it resumes
        patch.setattr(extraction, "publish_files", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            extract(sampled)
        patch.setattr(extraction, "_extract_unit", None)
        patch.setattr(extraction, "publish_files", output_documents.publish_files)
        extract(sampled)
    assert documents(options.output_file) == expected[:count]
    with pytest.raises(InputError, match="in-7"):
        extract(dataclasses.replace(options, sample_documents=99))


def test_a_sample_ends_inside_a_file(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("\n\n".join(f"Text {number}." for number in range(99)))
    read = []
    row = CORPUS_FORMATS["text"]

    def watched(*arguments):
        for document in row.documents(*arguments):
            read.append(document)
            yield document

    monkeypatch.setitem(CORPUS_FORMATS, "text", row._replace(documents=watched))
    options = corpus_options(tmp_path, "text", sample_documents=4, max_document_sentences=1)
    extract(options)
    assert len(read) == len(documents(options.output_file)) == 4


def test_an_ideograph_counts_as_a_word(tmp_path):
    (tmp_path / "in.txt").write_text("我们在使用 ab 模型。\nzwölf é\n", "utf-8")
    (output,) = extract(corpus_options(tmp_path, "text"))["outputs"].values()
    assert output["words"] == 5 + 1 + 2 + 2


def test_the_summary_describes_input_and_output(options, inputs, capsys):
    extract_corpus.run(options)
    summary = json.loads(pathlib.Path(options.output_file[:-4] + ".corpus.json").read_text())
    assert summary["settings"] == json.loads(json.dumps(dataclasses.asdict(options)))
    assert [source["weight"] for source in summary["sources"]] == [1.0, 2.0, 0.5]
    assert summary["inputs"] == {str(path): path.stat().st_size for path in inputs.iterdir()}
    for path in (options.output_file, options.eval_output_file):
        written = summary["outputs"][path]
        lines = [line for line in pathlib.Path(path).read_text().split("\n") if line]
        assert written["documents"] == len(documents(path))
        assert written["sentences"] == len(lines)
        assert written["words"] == sum(len(line.split(" ")) for line in lines)
        assert written["bytes"] == pathlib.Path(path).stat().st_size + 1
    assert summary["input_bytes"] == sum(summary["inputs"].values())
    assert {"sentencex", "mwparserfromhell"} < summary["versions"].keys()
    assert "documents" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["flags", "input", "templates"])
def test_another_run_starts_from_scratch(options, inputs, tmp_path, monkeypatch, capsys, change):
    rows = tmp_path / "rows.txt"
    rows.write_text("odd 1 -> (a)")
    options = dataclasses.replace(options, templates=str(rows))
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "publish_files", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            extract_corpus.run(options)
    if change == "flags":
        options = dataclasses.replace(options, language="de")
    elif change == "templates":
        identity = rows.stat()
        rows.write_text("odd 1 -> (b)")
        os.utime(rows, ns=(identity.st_atime_ns, identity.st_mtime_ns))
    else:
        os.utime(inputs / "lines.txt", ns=(0, 0))
    capsys.readouterr()
    extract_corpus.run(options)
    assert "starting from scratch" in "".join(capsys.readouterr())
    found = contents(options)
    extract_corpus.run(options)
    assert contents(options) == found


def test_unknown_templates_are_reported_and_can_be_defined(options, tmp_path, capsys):
    extract_corpus.run(options)
    counts = {f"odd {n}": 3 * len(range(n, 120, 7)) for n in range(7)}
    summary = json.loads(contents(options)["summary"])
    assert summary["unknown_templates"] == counts
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "removed 360 templates with unknown text: odd 0 (54), odd 1 (51), odd 2 (51), "
    )
    assert last.endswith("; --templates=FILE can define them")
    rows = tmp_path / "rows.txt"
    rows.write_text("odd 0 -> zero\nodd * ->\n")
    extract_corpus.run(dataclasses.replace(options, templates=str(rows)))
    assert json.loads(contents(options)["summary"])["unknown_templates"] == {}
    assert "unknown text" not in capsys.readouterr().out
    text = b"".join(contents(options)[name] for name in ("train.txt", "eval.txt")).decode()
    assert "This is page 7 zero." in text
    assert "This is page 8." in text


def test_sentences_of_languages_without_spaces(tmp_path):
    (tmp_path / "zh.txt").write_text("我来到北京。天气很好！你好吗？\n\n他说了再见。", "utf-8")
    extract_corpus.run(corpus_options(tmp_path, "books", "zh.txt", language="zh"))
    expected = "我来到北京。\n天气很好！\n你好吗？\n他说了再见。\n"
    assert (tmp_path / "out.txt").read_text("utf-8") == expected


@pytest.mark.parametrize(
    ("format", "language", "warnings"),
    [("text", "pt-BR", 1), ("text", "en", 0), ("books", "de", 0)],
)
def test_a_language_that_is_not_used_is_said_so(tmp_path, format, language, warnings):
    (tmp_path / "in.txt").write_text("Eins. Zwei.\nDrei.")
    summary = extract(corpus_options(tmp_path, format, language=language))
    assert len(summary["warnings"]) == warnings
    assert all(line.startswith("`language`=pt-BR: only recorded") for line in summary["warnings"])


def test_a_line_that_is_too_long_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output_documents, "MAX_SENTENCE_CHARACTERS", 1000)
    (tmp_path / "in.txt").write_text("One sentence.\n" + "x" * 5000 + "\nAnother sentence.\n")
    for format, unique in (("books", False), ("text", False), ("text", True)):
        extract_corpus.run(corpus_options(tmp_path, format, unique_paragraphs=unique))
        assert (tmp_path / "out.txt").read_text().startswith("One sentence.\nAnother sentence.")
        assert "left out: 1 sentences longer than" in capsys.readouterr().out


def test_damaged_input_is_a_warning(inputs, tmp_path, caplog):
    xml = bz2.decompress((inputs / "dump.xml.bz2").read_bytes())
    (inputs / "dump.xml").write_bytes(xml[: len(xml) // 2])
    options = corpus_options(inputs, "wikipedia", "dump.xml")
    extract_corpus.run(options)
    assert f"{inputs}/dump.xml is cut off; the pages before its end are used" in caplog.messages
    assert 50 < len(documents(options.output_file)) < 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": ()}, "`format`: name one .* neither is given"),
        ({"format": "text"}, "`format`: name one .* both are given"),
        ({"input_file": ("a",)}, "`input_file`: requires `format`"),
        ({"source": ("pdf:a.pdf",)}, "`source`=pdf: must be one of wikipedia, books"),
        ({"source": ("books",)}, "`source`: books needs files"),
        ({"source": ("books:",)}, "`source`: books needs files"),
        ({"source": ("books:none.txt@2",)}, "`source`: no file matches 'none.txt'"),
        ({"source": ("books:a@b.txt",)}, "`source`: no file matches 'a@b.txt'"),
        ({"source": ("books:a.txt@0",)}, "`source`=books:a.txt@0: the weight"),
        ({"source": ("books:a.txt@-1",)}, "`source`=books:a.txt@-1: the weight"),
        ({"source": ("books:{}/empty",)}, "`source`: no file matches '.*empty/"),
        ({"templates": "none.txt"}, "`templates`=none.txt: no such file"),
        ({"templates": "in/rows.txt"}, "`templates`=in/rows.txt: line 1, a: b: must be NAME"),
        ({"templates": "in/rows.txt", "source": (), "format": "text", "input_file": ("in/l*",)},
         "`templates`=in/rows.txt: needs `format`=wikipedia"),
    ],
)  # fmt: skip
def test_invalid_sources_and_templates_are_reported(
    options, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("a: b")
    if "source" in changes:
        changes = changes | {
            "source": tuple(source.format(tmp_path) for source in changes["source"])
        }
    with pytest.raises(InputError, match=message):
        extract_corpus.run(dataclasses.replace(options, **changes))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "in" not in path.parts]
