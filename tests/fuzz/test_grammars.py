"""Files that a grammar of each format gives: all of their text is read, and can be written."""

import re

import pytest
from hypothesis import given

from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import Counts, ReaderOptions
from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import make_output_documents, split_paragraphs
from tests.fuzz.grammars import GRAMMARS

pytestmark = [pytest.mark.integration, pytest.mark.hypothesis]

_OPTIONS = ExtractionOptions(output_file="out.txt")
# What XML cannot contain stands for markup while a page is read.
_MARKS = re.compile("[\x00-\x08\x0e-\x1f]")


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_a_grammar_gives_is_read(tmp_path, name):
    grammar = GRAMMARS[name]
    path, format = tmp_path / grammar.file, CORPUS_FORMATS[grammar.format]

    @given(grammar.contents)
    def read(content):
        path.write_bytes(content)
        counts = Counts()
        for unit in format.units([str(path)], ReaderOptions()):
            for document in format.documents(unit, ReaderOptions(), counts):
                split = split_paragraphs(document, _OPTIONS, format.has_sentences, counts)
                parts = [paragraph.sentences for paragraph in split]
                for output in make_output_documents(document, parts, 1, _OPTIONS):
                    assert output.text.count(b"\n") == output.sentences
                    assert not re.search("[\t\r\n]", output.name + output.source)
                    assert name != "wikipedia" or not _MARKS.search(output.text.decode())
        assert not (grammar.is_valid and counts.skipped)

    read()
