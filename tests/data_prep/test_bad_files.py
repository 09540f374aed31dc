"""One input file that cannot be read: refused before any work is done, or left out and counted."""

import dataclasses
import gzip
import json
import os

import pytest

from albert_tf.errors import InputError, StorageUnavailable
from data_prep import extraction, pretraining_data
from data_prep.extraction_options import ExtractionOptions
from data_prep.pretraining_data import create_pretraining_data
from data_prep.train_vocabulary import VocabularyOptions, train_vocabulary
from tests.data_prep.corpora.test_wikipedia import dump, page
from tests.support.hub import write_parquet
from tests.support.texts import corpus_options

_SENTENCE = "This is a sentence that is good."


def _csv(end: str) -> str:
    rows = (f'"{_SENTENCE} {number}",a' for number in range(9))
    return "text,title\n" + "\n".join(rows) + end


CASES = {  # format, name, good content, bad content, message
    "text": ("text", "txt", _SENTENCE.encode(), b"caf\xe9\n", r"z\.txt: line 1 is not UTF-8"),
    "gzip": (
        "text", "txt.gz", gzip.compress(_SENTENCE.encode()),
        gzip.compress(os.urandom(999).hex().encode())[:600], r"z\.txt\.gz: damaged or truncated",
    ),
    "books": ("books", "txt", _SENTENCE.encode(), b"good\n\xff", r"z\.txt: line 2 is not UTF-8"),
    "wikitext": ("wikitext", "raw", f" = T = \n {_SENTENCE}\n".encode(), b" = T = \n\xc3",
                 "line 2"),
    "jsonl": ("table", "jsonl", json.dumps({"text": _SENTENCE}).encode(), b'{"a": 1}',
              "no such column"),
    "csv": ("table", "csv", _csv("\n").encode(), _csv('\n"a,b\n"c",d\n').encode(),
            r"z\.csv:11: the quotation mark that opens here is not closed correctly"),
    "csv, not UTF-8": ("table", "csv", _csv("\n").encode(), _csv("\n\xe9").encode("latin1"), "UTF"),
    "squad": ("reading_sets", "json", json.dumps({"article": _SENTENCE}).encode(), b"[]", "SQuAD"),
    "wikipedia": ("wikipedia", "xml", dump([page("T", _SENTENCE)]), b"<html>", "not the XML of"),
    "parquet": ("table", "parquet", [{"text": _SENTENCE}], [{"text": 1}],
                r"`text_column`=text: must contain text; in .*z\.parquet, the type is int64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused_early_or_left_out(tmp_path, monkeypatch, caplog, name):
    format, ending, good, bad, message = CASES[name]
    for folder, content in (("a", good), ("z", bad)):
        path = tmp_path / f"{folder}.{ending}"
        write_parquet(path, content) if ending == "parquet" else path.write_bytes(content)
    (tmp_path / "first.txt").write_text("This comes first.\n\nAnd this.")
    pattern = str(tmp_path / f"?.{ending}")
    options = ExtractionOptions(
        source=(f"text:{tmp_path}/first.txt", f"{format}:{pattern}"), num_processes=1,
        output_file=str(tmp_path / "out" / "out.txt"),
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "_extract_unit", None)  # nothing has been done so far
        with pytest.raises(InputError, match=message):
            extraction.extract(options)
    assert not list((tmp_path / "out").iterdir())
    summary = extraction.extract(dataclasses.replace(options, skip_bad_files=True))
    assert summary["left_out"]["files that cannot be read"] == 1
    assert str(tmp_path / f"z.{ending}") in caplog.text
    assert _SENTENCE in (tmp_path / "out" / "out.txt").read_text()
    os.remove(tmp_path / f"a.{ending}")
    for sources in (options.source, options.source[::-1]):  # one of which no file is left
        options = dataclasses.replace(options, skip_bad_files=True, source=sources)
        summary = extraction.extract(options)
        assert summary["left_out"]["files that cannot be read"] == 1
        assert "comes first" in (tmp_path / "out" / "out.txt").read_text()
    with pytest.raises(InputError, match="^`source`: no text found in .*1 files that cannot be"):
        extraction.extract(dataclasses.replace(options, source=options.source[:1]))


@pytest.mark.integration
def test_records_and_vocabularies(options, corpus, tmp_path):
    (tmp_path / "z.txt").write_bytes(b"good\n\ncaf\xe9\n")
    whole = create_pretraining_data(options)
    both = dataclasses.replace(options, input_file=(str(corpus), str(tmp_path / "z.txt")))
    with pytest.raises(InputError, match=r"z\.txt: line 3 is not UTF-8"):
        create_pretraining_data(both)
    vocabulary = VocabularyOptions(both.input_file, str(tmp_path / "v" / "v"), vocab_size=600)
    with pytest.raises(InputError, match=r"z\.txt: line 3 is not UTF-8"):
        train_vocabulary(vocabulary)
    manifest = create_pretraining_data(dataclasses.replace(both, skip_bad_files=True))
    assert manifest["skipped_files"] == [str(tmp_path / "z.txt")]
    assert manifest["sha256"] == whole["sha256"]
    train_vocabulary(dataclasses.replace(vocabulary, skip_bad_files=True))
    assert (tmp_path / "v" / "v.model").exists()
    bad = {"input_file": (str(tmp_path / "z.txt"),), "skip_bad_files": True}
    for make, settings in ((create_pretraining_data, both), (train_vocabulary, vocabulary)):
        with pytest.raises(InputError, match=r"^`input_file`: no text in .*z\.txt$"):
            make(dataclasses.replace(settings, **bad))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("module", "work", "error", "message"),
    [
        (extraction, "_extract_unit", InputError, "lost; finished work is kept"),
        (extraction, "_extract_unit", StorageUnavailable, "lost$"),
        (pretraining_data, "_make_run", InputError, "lost; finished work is kept"),
    ],
)
def test_work_that_is_done_when_an_error_is_found_is_kept(
    options, tmp_path, monkeypatch, small_pieces, module, work, error, message
):
    for name in "abcdefgh":
        (tmp_path / f"{name}.txt").write_text(_SENTENCE)
    make, made, made_again = getattr(module, work), [], []

    def run() -> None:
        if module is pretraining_data:
            create_pretraining_data(dataclasses.replace(options, num_processes=1))
        else:
            output = f"{tmp_path}/out/out.txt"
            extraction.extract(corpus_options(tmp_path, "books", "?.txt", output_file=output))

    def make_or_fail(item):
        if len(made) == 3:
            raise error("b.txt: lost")
        made.append(item)
        return make(item)

    with monkeypatch.context() as patch:
        patch.setattr(module, work, make_or_fail)
        with pytest.raises(error, match=message):
            run()
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".work"]
    monkeypatch.setattr(module, work, lambda item: made_again.append(item) or make(item))
    run()
    assert len(made_again) > 3
    assert not [item for item in made if item in made_again]
