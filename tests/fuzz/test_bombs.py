"""Small files that stand for much more, or that take much time: both are bounded."""

import bz2
import gzip
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from albert_tf.errors import InputError
from albert_tf.files.spreadsheets import sheet_rows
from data_prep.corpora import table
from data_prep.corpora.base import Counts, ReaderOptions
from data_prep.corpora.dumps import pages_of, split_dump
from data_prep.corpora.wikipedia import documents
from tests.data_prep.corpora.test_wikipedia import dump, page
from tests.support.workbooks import write_xlsx

pytestmark = pytest.mark.integration

MEGABYTE = 1 << 20


def with_peak(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return what `work` returns or raises, and the peak of bytes of Python's objects."""
    tracemalloc.start()
    try:
        result = work()
    except InputError as error:
        result = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return result, peak


@pytest.mark.slow
def test_a_dump_of_a_few_bytes(tmp_path):
    path = tmp_path / "wiki.xml.bz2"
    xml = page("a", "A sentence of the article.").strip().encode()
    path.write_bytes(bz2.compress(b"<mediawiki>" + xml + bytes(100 * MEGABYTE)))
    assert path.stat().st_size < 1000

    def read():
        return [each for unit in split_dump(str(path)) for each in pages_of(unit, Counts())]

    pages, peak = with_peak(read)
    assert pages == [xml]
    assert peak < 40 * MEGABYTE


@pytest.mark.slow
def test_a_line_of_a_compressed_table(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "' + b"a" * (300 * MEGABYTE)))
    options = ReaderOptions(text_column="text")

    def read():
        for unit in table.units([str(path)], options):
            yield from table.documents(unit, options, Counts())

    error, peak = with_peak(lambda: list(read()))
    assert str(error) == f"{path}: a line is longer than 67,108,864 bytes"
    assert peak < 150 * MEGABYTE


def test_a_sheet_of_one_far_cell(tmp_path):
    path = tmp_path / "sheet.xlsx"
    write_xlsx(path, [["text", "label"]])
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    name = "xl/worksheets/sheet1.xml"
    contents[name] = contents[name].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as file:
        for each, content in contents.items():
            file.writestr(each, content)
    with pytest.raises(InputError, match=r"sheet\.xlsx: damaged, or its first sheet takes more"):
        list(sheet_rows(str(path)))


@pytest.mark.parametrize("markup", ["\n{|\n", "<ref>", "<div>", "{{a|", "[http://a ", "-{"])
def test_markup_that_is_never_closed(tmp_path, markup):
    path = tmp_path / "wiki.xml"
    article = "A sentence of the article, which is long enough to be kept."
    path.write_bytes(dump([page("hostile", markup * 20_000), page("good", article)]))
    counts, begin = Counts(), time.monotonic()
    (unit,) = split_dump(str(path))
    assert [document.paragraphs for document in documents(unit, ReaderOptions(), counts)] == [
        [article]
    ]
    assert sum(counts.left_out.values()) == 1
    assert time.monotonic() - begin < 10
