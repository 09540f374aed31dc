"""The table of corpus formats can be extended by other code."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence

import pytest

from albert_tf import files
from albert_tf.errors import InputError
from data_prep import parallel
from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import CorpusFormat, Counts, Document, ReaderOptions, find_files
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[str]:
    yield from find_files(patterns)


def documents(path: str, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    paragraphs = list(files.read_lines(path))
    counts.input_bytes += files.size(path)
    counts.characters += sum(map(len, paragraphs))
    yield Document(os.path.basename(path), "letters", paragraphs)


@pytest.mark.integration
@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_format_of_other_code_is_extracted(tmp_path, monkeypatch, num_processes):
    monkeypatch.setitem(CORPUS_FORMATS, "letters", CorpusFormat(units, documents))
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    for number in range(3):
        (tmp_path / f"{number}.letter").write_text(f"Dear reader. This is letter {number}.\n")
    output = tmp_path / "corpus.txt"
    summary = extract(
        ExtractionOptions(
            format="letters",
            input_file=(str(tmp_path / "*.letter"),),
            output_file=str(output),
            num_processes=num_processes,
        )
    )
    assert output.read_text().split("\n\n")[1] == "Dear reader.\nThis is letter 1."
    assert summary["outputs"][str(output)]["documents"] == 3
    sources = (tmp_path / "corpus.sources.tsv").read_text().splitlines()
    assert sources == [f"letters\t{number}.letter" for number in range(3)]


def test_an_unknown_format_is_answered_with_the_table(tmp_path: pathlib.Path):
    options = ExtractionOptions(
        format="letters", input_file=("*.letter",), output_file=str(tmp_path / "corpus.txt")
    )
    with pytest.raises(InputError) as error:
        extract(options)
    assert str(error.value) == f"`format`=letters: must be one of {', '.join(CORPUS_FORMATS)}"
