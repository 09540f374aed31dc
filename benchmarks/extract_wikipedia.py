"""How fast Wikipedia dumps are extracted, step by step and as a whole.

    python -m benchmarks.extract_wikipedia --input_file=enwiki-pages-articles-multistream1.xml.bz2

Prints MB of XML a second: of each step in one process, and of the command with one process and
with more. Of a small dump, --copies makes a larger one, so that the start of processes counts less.
"""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import io
import os
import re
import tempfile
import time
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.options import command, option
from data_prep import extract_corpus
from data_prep.corpora import dumps, wikipedia
from data_prep.corpora.base import Counts, ReaderOptions
from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import split_paragraphs


@dataclasses.dataclass(frozen=True)
class Options:
    input_file: str = option(help="A dump: pages-articles XML, plain or .bz2.")
    language: str = option("en", "Language code, for splitting sentences.")
    copies: int = option(8, "How often the pages are in the dump that is measured.")
    num_processes: int = option(2, "How many processes to compare with one.")


# Pages of a stream of a multistream dump.
_PAGES_PER_STREAM = 100


def run(options: Options) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, xml_bytes = _make_dump(options, folder)
        print(f"{xml_bytes / 1e6:.0f} MB of XML, {os.path.getsize(path) / 1e6:.0f} MB as .bz2")
        for step, seconds in _steps(path, options.language):
            print(f"{step:<34}{xml_bytes / 1e6 / seconds:8.1f} MB/s")
        for processes in (1, options.num_processes):
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                extract_corpus.run(
                    ExtractionOptions(
                        format="wikipedia",
                        input_file=(path,),
                        output_file=os.path.join(folder, f"out-{processes}.txt"),
                        language=options.language,
                        num_processes=processes,
                    )
                )
            rate = xml_bytes / 1e6 / (time.perf_counter() - start)
            print(f"{f'extract_corpus, {processes} processes':<34}{rate:8.1f} MB/s")


def _make_dump(options: Options, folder: str) -> tuple[str, int]:
    """Return path and XML size of a dump with the pages several times, a hundred a stream."""
    with open(options.input_file, "rb") as file:
        xml = file.read()
    xml = bz2.decompress(xml) if xml.startswith(b"BZh") else xml
    pages = re.findall(rb"<page>.*?</page>\n?", xml, re.DOTALL) * options.copies
    if not pages:
        raise InputError(f"--input_file: {options.input_file} has no pages")
    header = xml[: xml.find(b"<page>")]
    groups = range(0, len(pages), _PAGES_PER_STREAM)
    pieces = [header, *(b"".join(pages[n : n + _PAGES_PER_STREAM]) for n in groups)]
    pieces.append(b"</mediawiki>\n")
    path = os.path.join(folder, "dump.xml.bz2")
    with open(path, "wb") as file:
        file.writelines(map(bz2.compress, pieces))
    return path, sum(map(len, pieces))


def _steps(path: str, language: str) -> Iterator[tuple[str, float]]:
    """Each step alone, on what the one before gave: its name and its seconds."""
    start = time.perf_counter()
    with bz2.open(path) as file:
        while file.read(1 << 20):
            pass
    decompress = time.perf_counter() - start
    yield "decompress", decompress

    reader_options = ReaderOptions(language)
    start = time.perf_counter()
    units = [
        dumps.DumpUnit(unit.path, unit.site, 0, 0, tuple(dumps.pages_of(unit, Counts())), Counts())
        for unit in wikipedia.units([path], reader_options)
    ]
    yield "split into pages", time.perf_counter() - start - decompress

    start = time.perf_counter()
    documents = [
        document
        for unit in units
        for document in wikipedia.documents(unit, reader_options, Counts())
    ]
    yield "parse, take out markup", time.perf_counter() - start

    start = time.perf_counter()
    for document in documents:
        for _ in split_paragraphs(document, language, False, Counts()):
            pass
    yield "split into sentences", time.perf_counter() - start


cli = command(Options, run)

if __name__ == "__main__":
    cli()
