"""Readers of corpora, and the table of their formats; `base` defines what a reader yields.

A new format is a module with two functions and a row here:

    # data_prep/corpora/letters.py
    def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[str]:
        yield from find_files(patterns)

    def documents(path: str, options: ReaderOptions, counts: Counts) -> Iterator[Document]:
        paragraphs = list(files.read_lines(path))
        counts.input_bytes += files.size(path)
        counts.characters += sum(map(len, paragraphs))
        yield Document(os.path.basename(path), "letters", paragraphs)

    # here
    "letters": CorpusFormat(letters.units, letters.documents),

Code outside of this package can add a row before it calls `data_prep.extraction.extract`.
"""

from data_prep.corpora import books, reading_sets, table, text, wikipedia, wikitext_sets
from data_prep.corpora.base import CorpusFormat

CORPUS_FORMATS: dict[str, CorpusFormat] = {
    "wikipedia": CorpusFormat(wikipedia.units, wikipedia.documents),
    "books": CorpusFormat(books.units, books.documents, ending=".txt"),
    "text": CorpusFormat(text.units, text.documents, has_sentences=True),
    "wikitext": CorpusFormat(wikitext_sets.units, wikitext_sets.documents),
    "table": CorpusFormat(table.units, table.documents, ending=table.ENDINGS),
    "reading_sets": CorpusFormat(
        reading_sets.units, reading_sets.documents, ending=reading_sets.ENDINGS
    ),
}
