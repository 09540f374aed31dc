"""Which tokens continue a Chinese word, from files that Hugging Face's `run_chinese_ref.py` writes.

For every line of text that is not blank, such a file has a line with a JSON list: the positions of
the tokens that continue a word, counted from [CLS], which is 0. The 512th token is the last one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.logs import counted
from albert_tf.tokenizers import Tokenizer
from data_prep.text_units import (
    MAX_LINE_BYTES,
    TextDocument,
    TextUnit,
    is_blank,
    line_number,
    lines_from,
)
from data_prep.word_segments import is_ideograph


def with_references(units: Sequence[TextUnit], paths: Sequence[str]) -> list[TextUnit]:
    """Find where in the reference files the lines of each unit begin; read all files once.

    Args:
        units: the units of the text files, in order.
        paths: the reference files, one for each text file.

    Raises:
        InputError: If there are more or fewer of them, or if one has more or fewer lines than its
            text file has lines that are not blank.
    """
    by_file = {file: list(part) for file, part in itertools.groupby(units, lambda unit: unit.file)}
    texts = [part[0].path for part in by_file.values()]
    if len(texts) != len(paths):
        raise InputError(
            f"`chinese_ref_file`: {counted(len(paths), 'file')} for "
            f"{counted(len(texts), 'text file')}; each text file needs one, and both are sorted by "
            "name"
        )
    found: list[TextUnit] = []
    for part, path in zip(by_file.values(), paths, strict=True):
        found += _with_references(part, path)
    return found


def _with_references(units: list[TextUnit], path: str) -> Iterator[TextUnit]:
    """Find them for the units of one file."""
    waiting = iter(units)
    unit = next(waiting, None)
    whole = units[0]._replace(end=units[-1].end)
    lines = 0
    with files.open_file(path, "rb") as file:
        for offset, line, _ in lines_from(whole):
            while unit and unit.begin <= offset:
                yield unit._replace(reference=(path, file.tell()))
                unit = next(waiting, None)
            if not is_blank(line):
                lines += 1
                if not file.readline():
                    raise InputError(
                        f"{path}: has {lines - 1:,} lines, fewer than {whole.path} has lines that "
                        "are not blank"
                    )
        end = file.tell()
        if file.readline().strip():
            raise InputError(
                f"{path}: has more lines than the {lines:,} of {whole.path} that are not blank"
            )
    while unit:  # units that lie inside the last line
        yield unit._replace(reference=(path, end))
        unit = next(waiting, None)


class WordReferences:
    """The references of a unit, which are read in the order of its documents.

    Args:
        tokenizer: the tokenizer that the references were made with.
        unit: the unit, with its place in the reference file.
    """

    def __init__(self, tokenizer: Tokenizer, unit: TextUnit):
        assert unit.reference is not None
        self._tokenizer, self._unit = tokenizer, unit
        self._path, self._begin = unit.reference
        self._lines = self._read()

    def continuing_tokens(
        self, documents: Iterable[TextDocument], lengths: np.ndarray
    ) -> np.ndarray:
        """Find the tokens that continue a word.

        Args:
            documents: the next documents of the unit.
            lengths: int64 `[sentences]`, the numbers of tokens of their sentences.

        Returns:
            bool `[tokens]`.

        Raises:
            InputError: If a line is no JSON list, or names tokens that are not ideographs.
        """
        found = np.zeros(lengths.sum(), np.bool_)
        begins = np.cumsum(lengths) - lengths
        sentences = ((d.offset, sentence) for d in documents for sentence in d.sentences)
        for (offset, sentence), begin in zip(sentences, begins, strict=True):
            positions = next(positions for start, positions in self._lines if start >= offset)
            if positions:
                found[begin + self._tokens(sentence, positions)] = True
        return found

    def _read(self) -> Iterator[tuple[int, list[int]]]:
        """Yield where lines of text begin, and their positions; lines too long are left out."""
        with files.open_file(self._path, "rb") as file:
            file.seek(self._begin)
            for offset, line, size in lines_from(self._unit):
                if is_blank(line):
                    continue
                begin, reference = file.tell(), file.readline()
                if size > MAX_LINE_BYTES:
                    continue
                try:
                    positions = json.loads(reference)
                except (ValueError, RecursionError):  # not JSON, or not UTF-8
                    positions = None
                if not (
                    isinstance(positions, list)
                    and all(type(position) is int and position > 0 for position in positions)
                ):
                    raise InputError(
                        f"{self._path}: line {line_number(self._path, begin)} must be a JSON list "
                        f"of positions above 0, not {reference[:40]!r}"
                    )
                yield offset, positions

    def _tokens(self, sentence: str, positions: list[int]) -> np.ndarray:
        """Return the tokens at some positions: int64 `[positions]`."""
        _, spans = self._tokenizer.encode_with_offsets(sentence)
        for position in positions:
            # The token before the first is [CLS].
            if position > len(spans) or not is_ideograph(sentence[slice(*spans[position - 1])]):
                raise InputError(
                    f"{self._path}: token {position} of '{sentence[:40]}' is not a Chinese "
                    f"character; the file must be made from {self._unit.path} with the same "
                    "vocabulary"
                )
        return np.array(positions) - 1
