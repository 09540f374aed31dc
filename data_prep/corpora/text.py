"""The original's format: one sentence per line, a blank line between documents.

Corpora without blank lines, such as the files of BookCorpus, are read in documents of a fixed
number of lines.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from albert_tf import files
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.text_units import TextUnit, in_parts, read_unit, units_of

_UNIT_BYTES = 4_000_000

# What text that is not in this format looks like.
_MAX_WORDS = 500
_MIN_DOCUMENTS = 20


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[TextUnit]:
    """Yield parts of text files."""
    for unit in byte_ranges(options.readable(find_files(patterns), files.check_utf8)):
        yield from in_parts(unit, _UNIT_BYTES, options.document_sentences)


def byte_ranges(paths: Sequence[str]) -> Iterator[TextUnit]:
    """Yield text files in parts of a few megabytes; compressed ones whole."""
    yield from units_of(paths, list(map(files.size, paths)), _UNIT_BYTES)


def documents(unit: TextUnit, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield the documents that begin in a unit, named after the file and their offset in it."""
    counts.input_bytes += unit.end - unit.begin
    source = options.file_name(unit.path)
    unit_counts: Counter[str] = Counter()
    documents = sentences = single = long = 0
    for document in read_unit(unit, unit_counts, options.document_sentences):
        counts.characters += sum(map(len, document.sentences))
        documents += 1
        sentences += len(document.sentences)
        single += len(document.sentences) == 1
        long += sum(sentence.count(" ") >= _MAX_WORDS for sentence in document.sentences)
        yield Document(f"{source}:{document.offset}", source, document.sentences)
    # The beginning of a file is enough to tell.
    if unit.begin == 0 and long > sentences / 2:
        counts.warn(
            f"{unit.path}: most lines have more than {_MAX_WORDS} words; this format has a "
            "sentence per line (books splits paragraphs into sentences)"
        )
    mostly_single = documents >= _MIN_DOCUMENTS and single > documents / 2
    if unit.begin == 0 and mostly_single and not options.document_sentences:
        counts.warn(
            f"{unit.path}: most documents are a single line; blank lines must separate documents, "
            "not paragraphs or sentences (`document_sentences` ignores them)"
        )
    if unit_counts["skipped_lines"]:
        counts.left_out["lines longer than a megabyte"] += unit_counts["skipped_lines"]
