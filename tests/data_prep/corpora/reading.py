"""Helpers for tests of corpus readers."""

import pickle
from collections.abc import Sequence

from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import Counts, Document, ReaderOptions


def read(
    format: str, patterns: Sequence[str], options: ReaderOptions | None = None
) -> tuple[list[Document], Counts]:
    """Return all documents of a corpus and the sum of their counts, units pickled."""
    options = options or ReaderOptions()
    found, counts = [], Counts()
    for unit in CORPUS_FORMATS[format].units(patterns, options):
        unit_counts = Counts()
        unit = pickle.loads(pickle.dumps(unit))
        found += CORPUS_FORMATS[format].documents(unit, options, unit_counts)
        counts += unit_counts
    return found, counts
