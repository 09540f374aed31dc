"""Paragraphs of a corpus that contain text of evaluation sets, which a model must not have read.

Every text of the files counts, whatever its field: questions, passages, labels, the cells of a
header. A paragraph contains text of them if 13 of its words in a row, which may also begin in the
paragraph before, are in one of these texts.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document
from data_prep.word_sequences import find_words

SEQUENCE_WORDS = 13  # as for GPT-3, arXiv 2005.14165, appendix C
_TEXTS_AT_ONCE = 10_000


class EvaluationSets(NamedTuple):
    """The sequences of words of some evaluation sets.

    Attributes:
        names: of the sets, as they were given: files or folders.
        hashes: uint64 `[sequences]`, in ascending order.
        sets: uint32 `[sequences]`, index of the first set with each.
        statistics: number of texts, of those too short to be found, and of sequences, by name.
    """

    names: tuple[str, ...]
    hashes: np.ndarray
    sets: np.ndarray
    statistics: dict[str, dict[str, int]]


def read_evaluation_sets(patterns: Sequence[str]) -> EvaluationSets:
    """Read evaluation sets; memory has 12 bytes per word.

    Args:
        patterns: files, globs or folders; of tables, JSON, JSON lines or text.

    Raises:
        InputError: If one is missing or invalid, or no text is long enough.
    """
    names = tuple(files.expand_globs(patterns, "decontaminate"))
    statistics = {}
    found = []
    for name in names:
        texts = long = 0
        parts = [np.empty(0, np.uint64)]
        paths = files.files_below(name) if files.is_folder(name) else [name]
        if not paths:
            raise InputError(f"`decontaminate`={name}: the folder is empty")
        all_texts = itertools.chain.from_iterable(map(_texts, paths))
        while batch := list(itertools.islice(all_texts, _TEXTS_AT_ONCE)):
            words = find_words(batch)
            hashes, ends = words.sequences(SEQUENCE_WORDS)
            text_of = words.paragraphs[: len(hashes)]
            is_inside = text_of == words.paragraphs[ends - 1]
            texts += len(np.unique(words.paragraphs))
            long += len(np.unique(text_of[is_inside]))
            parts.append(hashes[is_inside])
        found.append(np.unique(np.concatenate(parts)))
        statistics[name] = {"texts": texts, "too_short": texts - long, "sequences": len(found[-1])}
    hashes, first = np.unique(np.concatenate(found), return_index=True)
    if not len(hashes):
        raise InputError(
            f"`decontaminate`={','.join(patterns)}: no text there has {SEQUENCE_WORDS} words, by "
            "which it could be found"
        )
    sets = np.repeat(np.arange(len(found), dtype=np.uint32), list(map(len, found)))
    return EvaluationSets(names, hashes, sets[first], statistics)


def decontaminated(
    document: Document, evaluation_sets: EvaluationSets, counts: Counts
) -> tuple[Document, list[list[str]]]:
    """Leave out the paragraphs of a document that contain text of evaluation sets.

    Returns:
        The rest, and of each other one the name of the set, the words that it shares with it,
        source and name of the document, and the paragraph.
    """
    words = find_words(document.paragraphs)
    hashes, ends = words.sequences(SEQUENCE_WORDS)
    places = np.searchsorted(evaluation_sets.hashes, hashes)
    places[places == len(evaluation_sets.hashes)] = 0
    shared: dict[int, tuple[str, str]] = {}
    for first in np.flatnonzero(evaluation_sets.hashes[places] == hashes).tolist():
        last = ends[first] - 1
        text = words.text[words.spans[first, 0] : words.spans[last, 1]]
        name = evaluation_sets.names[evaluation_sets.sets[places[first]]]
        for number in range(words.paragraphs[first], words.paragraphs[last] + 1):
            shared.setdefault(number, (name, text))
    for name, _ in shared.values():
        counts.left_out[f"paragraphs with text of {name}"] += 1
    paragraphs = [text for n, text in enumerate(document.paragraphs) if n not in shared]
    rows = [
        [*found, document.source, document.name, document.paragraphs[number]]
        for number, found in sorted(shared.items())
    ]
    return document._replace(paragraphs=paragraphs) if rows else document, rows


def _texts(path: str) -> Iterator[str]:
    """Yield every text in a file."""
    name, _ = files.split_compression(path)
    ending = os.path.splitext(name)[1].lower()
    if ending in (".tsv", ".csv"):
        rows = files.tsv_rows(path) if ending == ".tsv" else files.csv_rows(path)
        for _, cells in rows:
            yield from cells
    elif ending == ".parquet":
        for _, row in files.parquet_rows(path):
            yield from _strings(row)
    else:
        yield from _texts_of_lines(path, ending)


def _texts_of_lines(path: str, ending: str) -> Iterator[str]:
    """Yield the texts of JSON, or of lines between blank lines; RACE calls its JSON .txt."""
    text = "\n".join(files.read_lines(path))
    if ending not in (".json", ".jsonl") and text.lstrip()[:1] not in ("{", "["):
        yield from text.split("\n\n")
        return
    try:
        values = [files.parse_json(text, path, Any, allows_halves=True)]
    except InputError:
        lines = list(files.located_lines(path))
        if len(lines) < 2:
            raise
        values = [files.parse_json(line, place, Any, allows_halves=True) for place, line in lines]
    yield from _strings(values)


def _strings(value: Any) -> Iterable[str]:
    """Return all texts in a value of JSON."""
    found, rest = [], [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            rest += value.values()
        elif isinstance(value, list | tuple):
            rest += value
    return found
